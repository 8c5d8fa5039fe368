"""The process that draws for one that trains: `python -m palaestra.envs.painter_process`.

It is told poses, and of each environment it draws the newest; what it cannot keep up with is passed over. It ends with
the line, however the other side went, and leaves nothing behind: a frame that it did not finish was never there.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from palaestra.config.env import EnvConfig
from palaestra.envs.easel import Easel, fitted
from palaestra.envs.make import make_env
from palaestra.envs.painter_line import PainterLine, Word
from palaestra.envs.pose import Poser, strike_pose
from palaestra.envs.wire import LineClosed
from palaestra.frames.lane import LaneFile
from palaestra.frames.note import Numbers
from palaestra.frames.writer import FrameWriter
from palaestra.runs.processes import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.frames.shrink import Picture

# Of a core that somebody else wants too, the scheduler gives a tenth to one that makes itself ready (for a second),
# and 1.5 % to one that draws.
READYING, DRAWING = 10, 19


class Copy:
    """An environment like one of those that are played elsewhere; it strikes its poses."""

    def __init__(self, config: EnvConfig) -> None:
        self.env = make_env(config)
        self.env.reset(seed=0)
        self._own = dict(vars(self.env.unwrapped))
        self._easel = Easel(self.env)

    def draw(self, pose: dict[str, Any]) -> Picture:
        strike_pose(self.env, self._own, pose)
        return self._easel.draw()


class Atelier:
    """A copy for each tile, made when it is first drawn: what it is drawn with may depend on its first pose, as the
    camera of a simulation does, which stays where it was set up."""

    def __init__(self, env: dict[str, Any]) -> None:
        self._config = EnvConfig.model_validate(env)
        self._first: Copy | None = Copy(self._config)
        self._copies: dict[int, Copy] = {}

    def alike(self, digests: dict[str, str]) -> list[str]:
        """The attributes that copies have as the others have them"""
        assert self._first is not None
        own = Poser(self._first.env).digests()
        return [name for name, digest in digests.items() if own.get(name) == digest]

    def draw(self, tile: int, pose: dict[str, Any]) -> Picture:
        if tile not in self._copies:
            self._copies[tile] = self._first or Copy(self._config)
            self._first = None
        return self._copies[tile].draw(pose)


class Orders:
    """What is to be drawn: the newest of each slot, in the order in which they first asked."""

    def __init__(self, line: PainterLine) -> None:
        self._line = line
        self._newest: dict[int, dict[str, Any]] = {}

    def next(self) -> dict[str, Any]:
        """Waits for one when there is none. LineClosed when the other side is gone."""
        self._hear_all()
        while not self._newest:
            select.select([self._line], [], [])
            self._hear_all()
        return self._newest.pop(next(iter(self._newest)))

    def _hear_all(self) -> None:
        while (said := self._line.hear()) is not None:
            self._newest[said.content["slot"]] = said.content


def draw_all(orders: Orders, atelier: Atelier, writer: FrameWriter, largest_side: int) -> None:
    """Until the line is closed"""
    while True:
        order = orders.next()
        demand = writer.demand(monotonic())
        if demand is None:
            continue  # whoever wanted to see it is gone
        picture = fitted(atelier.draw(order["slot"], order["pose"]), demand.largest_side, largest_side)
        numbers = Numbers(order["env_step"], order["reward"], order["total_reward"], order["length"])
        writer.write(order["slot"], picture, numbers, order["at"])
        writer.ring(demand, order["slot"])


def serve(line: PainterLine) -> None:
    select.select([line], [], [])
    said = line.hear()
    assert said is not None
    start = said.content
    with closing(LaneFile(Path(start["lane"]))) as lane, closing(FrameWriter(lane.descriptor, lane.about)) as writer:
        atelier = Atelier(start["env"])
        line.say(Word.READY, {"alike": atelier.alike(start["digests"])})
        os.nice(DRAWING - READYING)
        draw_all(Orders(line), atelier, writer, start["largest_side"])


def main(arguments: list[str]) -> int:
    connection, parent = (int(word) for word in arguments)
    if parent:
        with suppress(OSError):  # forbidden in some containers; the line tells us as well
            die_with_parent(parent)
    _ignore((signal.SIGINT, signal.SIGTERM))  # both are for the process that trains: it ends, and with it the line
    os.nice(READYING)
    with closing(PainterLine(socket.socket(fileno=connection))) as line:
        try:
            serve(line)
        except LineClosed:
            return 0
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".strip().removesuffix(".")
            with suppress(LineClosed):
                line.say(Word.FAILED, {"reason": reason[:1000]})
            raise SystemExit(1) from error
    return 0


def _ignore(signals: Iterable[signal.Signals]) -> None:
    for one in signals:
        signal.signal(one, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
