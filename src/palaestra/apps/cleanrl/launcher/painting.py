"""`python begin.py paint FD`: draws, beside a script that trains, how its environments stand.

It is told poses, all wanted tiles at once, and answers when they are drawn and what that took. It ends with the line.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from .easel import Easel, fitted
from .lane import Lane, Numbers
from .pose import Sitter
from .running import die_with_parent

LARGEST_MESSAGE = 1 << 17  # bytes
READYING, DRAWING = 10, 19  # how much it gives way, while it makes itself ready and then


class Atelier:
    def __init__(self, start: dict[str, Any]) -> None:
        self._lane = Lane(Path(start["lane"]))
        self._tiles: dict[int, tuple[Sitter, Easel]] = {}
        Sitter(start["kind"])  # that there can be one is known before anybody relies on it

    def close(self) -> None:
        self._lane.close()

    def _tile(self, slot: int, kind: str) -> tuple[Sitter, Easel]:
        if slot not in self._tiles or self._tiles[slot][0].kind != kind:
            sitter = Sitter(kind)
            self._tiles[slot] = sitter, Easel(sitter.env)
        return self._tiles[slot]

    def draw(self, orders: list[dict[str, Any]]) -> int:
        """How many were drawn: none when whoever wanted them is gone."""
        demand = self._lane.demand(time.monotonic())
        if demand is None:
            return 0
        for order in orders:
            slot = order["slot"]
            sitter, easel = self._tile(slot, order["kind"])
            sitter.strike(order["pose"])
            picture = fitted(easel.draw(), demand.largest_side, self._lane.largest_side)
            self._lane.write(slot, picture, Numbers(*order["numbers"]), order["at"])
            self._lane.ring(demand, slot)
        return len(orders)


def serve(line: socket.socket) -> None:
    start = json.loads(line.recv(LARGEST_MESSAGE) or b"null")
    if start is None:
        return
    die_with_parent(start["parent"])
    with closing(Atelier(start)) as atelier:
        os.nice(DRAWING - READYING)
        line.send(b"{}")
        is_first = True  # which loads what draws
        while data := line.recv(LARGEST_MESSAGE):
            began = time.process_time()
            drawn = atelier.draw(json.loads(data))
            spent = 0.0 if is_first else time.process_time() - began
            is_first = False
            line.send(json.dumps({"drawn": drawn, "seconds": spent}).encode())


def main(descriptor: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # for the script: it ends, and with it the line
        signal.signal(number, signal.SIG_IGN)
    sys.path[:] = [one for one in sys.path if one != str(Path(__file__).resolve().parent)]
    os.nice(READYING)
    with socket.socket(fileno=descriptor) as line:
        try:
            serve(line)
        except OSError:  # the line is gone, or the lane
            return
        except Exception as error:  # what draws may raise anything; then the script draws by itself
            with suppress(OSError):
                line.send(json.dumps({"failed": f"{type(error).__name__}: {error}".rstrip(".")[:1000]}).encode())
            raise SystemExit(1) from error
