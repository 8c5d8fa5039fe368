"""What a worker of Ray does for us: text and bytes in, text out; nothing of ours is pickled on the way.

A worker process lives on from task to task and keeps the policies that it has loaded, so that many shares of one
checkpoint cost one load, and torch is loaded once.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import OrderedDict
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.files import model_name
from palaestra.checkpoints.loading import load_opened_policy
from palaestra.checkpoints.selection import OpenedCheckpoint
from palaestra.checkpoints.sidecar import decode, digest
from palaestra.cluster.evaluation.messages import share_from_json
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.evaluation.local import LocalEvaluator, one_thread
from palaestra.runs.environment import compare_code

if TYPE_CHECKING:
    from palaestra.cluster.evaluation.messages import Share

POLICIES_KEPT = 8  # in each worker process

_players: OrderedDict[str, LocalEvaluator] = (
    OrderedDict()
)  # by what they were loaded from; the last one used at the end


def play_share(text: str, sidecar: bytes, weights: bytes, node: str = "") -> str:
    """Play all seeds of the share in `text`; the answer is what `palaestra.cluster.evaluation.messages` reads.

    Where the code here is not that of who asks, nothing is played unless that was allowed; the answer says so.
    """
    try:
        share = share_from_json(text)
        different = compare_code(share.code)
        answer: dict[str, Any] = {} if different is None else {"code_differences": asdict(different)}
        if different is None or share.allow_different_code:
            answer |= _played(share, sidecar, weights)
    except PalaestraError as error:
        answer = {"refused": {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}}
    return json.dumps({**answer, "host": platform.node(), "pid": os.getpid(), "node": node})


def _played(share: Share, sidecar: bytes, weights: bytes) -> dict[str, Any]:
    with one_thread():
        player = _player(share, sidecar, weights)
        began = monotonic()
        episodes = [asdict(episode) for episode in player.evaluate(share.plan)]
        return {"episodes": episodes, "seconds": monotonic() - began}


def _player(share: Share, sidecar: bytes, weights: bytes) -> LocalEvaluator:
    key = f"{hashlib.sha256(sidecar).hexdigest()} {share.trust_module}"  # the sidecar names the sha256 of the weights
    if key not in _players:
        _players[key] = _load(share, sidecar, weights)
    _players.move_to_end(key)
    while len(_players) > POLICIES_KEPT:
        _players.popitem(last=False)
    return _players[key]


def _load(share: Share, sidecar: bytes, weights: bytes) -> LocalEvaluator:
    """Through the same reader as from a disk: checksums first, then safetensors."""
    checkpoint = decode(sidecar, f"the sidecar of {share.plan.checkpoint}")
    name = model_name(checkpoint.epoch)
    arrived = digest(weights)
    if arrived != checkpoint.files[name] or arrived["sha256"] != share.request.weights:
        raise DamagedFile(f"The weights of {share.plan.checkpoint} arrived with another sha256 than was asked for.")
    return LocalEvaluator(
        load_opened_policy(OpenedCheckpoint(checkpoint, {name: weights}), trust_module=share.trust_module)
    )
