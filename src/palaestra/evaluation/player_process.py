"""`python -m palaestra.evaluation.player_process FD`: plays the shares that it is given on standard input.

The first line says which policy, every further line is a plan; each episode and each refusal is a line to FD.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from palaestra.checkpoints.loaded import policy_from
from palaestra.checkpoints.reading import open_checkpoint
from palaestra.core.errors import PalaestraError
from palaestra.evaluation.live import tile_in
from palaestra.evaluation.player import Player
from palaestra.evaluation.request import plan_from
from palaestra.runs.processes import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterable


def main(lines: Iterable[str], answers: int) -> int:
    player: Player | None = None
    torch.set_num_threads(1)
    try:
        with ExitStack() as stack:
            for line in lines:
                message = json.loads(line)
                if player is None:
                    player = _begin(message, stack)
                    continue
                for episode in player.episodes(plan_from(message["plan"])):
                    _say(answers, {"episode": asdict(episode)})
    except PalaestraError as error:
        _say(answers, {"error": error.message, "hint": error.hint, "exit_code": error.exit_code})
        return error.exit_code
    return 0


def _begin(start: dict[str, Any], stack: ExitStack) -> Player:
    die_with_parent(start["parent"])
    sidecar = Path(start["sidecar"])
    opened = open_checkpoint(sidecar.parent, sidecar)
    places = {name: Path(start[name]) for name in ("videos", "replays") if start[name] is not None}
    player = Player(policy_from(opened, trust_module=start["trust_module"]), **places)
    if start.get("lane") is not None:
        player.onlooker = stack.enter_context(tile_in(Path(start["lane"]), start["slot"]))
    return player


def _say(answers: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.stdin, int(sys.argv[1])))
