"""What a Ray worker does: text and bytes in, lines of text out; nothing is pickled.

A worker process stays alive between tasks and caches policies, so that many shares of one checkpoint cost one load.
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
from palaestra.cluster.evaluation.messages import progress_to_json, share_from_json
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.evaluation.local import LocalEvaluator, one_thread
from palaestra.runs.environment import compare_code

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from palaestra.cluster.evaluation.messages import Share

PROGRESS_SECONDS = 1.0  # between two signs of progress; far below the least cluster.share_timeout
MAX_POLICIES = 8  # in each worker process

_evaluators: OrderedDict[str, LocalEvaluator] = OrderedDict()  # by sidecar, the last one used at the end


def play_share(text: str, sidecar: bytes, weights: bytes, node: str = "") -> Iterator[str]:
    """Plays all seeds of the share in `text`: yields signs of progress, at last the response, as JSON.

    Where the code differs from the driver's, nothing is played unless that is allowed; the response says so.
    """
    try:
        share = share_from_json(text)
        different = compare_code(share.code)
        response: dict[str, Any] = {} if different is None else {"code_differences": asdict(different)}
        if different is None or share.allow_different_code:
            response |= yield from _played(share, sidecar, weights, node)
    except PalaestraError as error:
        response = {"refused": {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}}
    yield json.dumps({**response, "host": platform.node(), "pid": os.getpid(), "node": node})


def _played(share: Share, sidecar: bytes, weights: bytes, node: str) -> Generator[str, None, dict[str, Any]]:
    episodes = []
    with one_thread():
        evaluator = _evaluator_of(share, sidecar, weights)
        began = reported = monotonic()
        for episode in evaluator.evaluate(share.plan):
            episodes.append(asdict(episode))
            if monotonic() - reported > PROGRESS_SECONDS:
                reported = monotonic()
                yield progress_to_json(node, len(episodes))
        return {"episodes": episodes, "seconds": monotonic() - began}


def _evaluator_of(share: Share, sidecar: bytes, weights: bytes) -> LocalEvaluator:
    key = f"{hashlib.sha256(sidecar).hexdigest()} {share.trust_module}"  # the sidecar names the sha256 of the weights
    if key not in _evaluators:
        _evaluators[key] = _load(share, sidecar, weights)
    _evaluators.move_to_end(key)
    while len(_evaluators) > MAX_POLICIES:
        _evaluators.popitem(last=False)
    return _evaluators[key]


def _load(share: Share, sidecar: bytes, weights: bytes) -> LocalEvaluator:
    """Loads with the reader for files: checksums first, then safetensors."""
    checkpoint = decode(sidecar, f"the sidecar of {share.plan.checkpoint}")
    name = model_name(checkpoint.epoch)
    arrived = digest(weights)
    if arrived != checkpoint.files[name] or arrived["sha256"] != share.request.weights:
        raise DamagedFile(f"The weights of {share.plan.checkpoint} have a different sha256 than the request.")
    return LocalEvaluator(
        load_opened_policy(OpenedCheckpoint(checkpoint, {name: weights}), trust_module=share.trust_module)
    )
