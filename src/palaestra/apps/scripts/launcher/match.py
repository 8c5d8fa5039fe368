"""`python bootstrap.py match FD`: plays episodes with the networks of a checkpoint, step by step, for a match.

The first line of standard input says which checkpoint, in which slot of which frame buffer; then `{"begin": …}`,
`{"step": true}` and `{"show": true}`. Each reset and each step is answered by a line to FD, after its frame is written.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import IO, Any

import torch

from ....rendering.frame_buffer import FrameBufferError, FrameBufferFile
from ....rendering.frame_format import Numbers
from ....rendering.frame_writer import FrameWriter
from ....rendering.images import fit
from ....rendering.offscreen import CannotRender, OffscreenRenderer
from ....rendering.render_process import largest_side_of
from .play import Player, refuse, say
from .run import die_with_parent, set_paths
from .weights import Mismatch

NICENESS = 10


class BeginAgain(Exception):
    """Another episode is asked for in the middle of one."""

    def __init__(self, command: dict[str, Any]) -> None:
        super().__init__()
        self.command = command


class SlotScreen:
    """Writes frames of one environment into one slot, as far as somebody wants to see it."""

    def __init__(self, path: Path, slot: int) -> None:
        self._path = path
        self._slot = slot
        self._file: FrameBufferFile | None = None
        self._writer: FrameWriter | None = None
        self._renderer: OffscreenRenderer | None = None

    def show(self, env: Any, numbers: Numbers) -> None:
        writer = self._open()
        demand = None if writer is None else writer.demand(time.monotonic())
        if writer is None or demand is None or self._slot not in demand.slots:
            return
        if self._renderer is None or self._renderer.env is not env:
            self._renderer = OffscreenRenderer(env)
        writer.write(self._slot, fit(self._renderer.render(), demand.largest_side, largest_side_of(writer)), numbers)
        writer.notify(demand, self._slot)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()

    def _open(self) -> FrameWriter | None:
        if self._writer is None:
            try:
                self._file = FrameBufferFile(self._path)
            except FrameBufferError:  # not made yet
                return None
            self._writer = FrameWriter(self._file.descriptor, self._file.about)
        return self._writer


class MatchPlayer(Player):
    """Waits after every step for the next command."""

    def __init__(self, start: dict[str, Any], commands: IO[str], answers: int) -> None:
        super().__init__(start)
        self._commands = commands
        self._answers = answers
        self._screen = SlotScreen(Path(start["frame_buffer"]), int(start["slot"]))

    def serve(self) -> None:
        """Until the commands end."""
        command = self._next()
        while command is not None:
            if "begin" not in command:  # of an episode that has ended
                command = self._next()
                continue
            try:
                for _ in self.episodes(command["begin"]):
                    pass
                command = self._next()
            except BeginAgain as again:
                command = again.command

    def _be_seen(self) -> None:
        """After the reset and after every step."""
        is_over = self._referee.ended is not None
        numbers = self._numbers()
        self._show_frame(numbers)
        figures = {"reward": numbers.reward, "total_reward": numbers.total_reward, "length": numbers.length}
        say(self._answers, {"at": {**figures, "is_over": is_over}})
        if not is_over:
            self._wait(numbers)

    def _wait(self, numbers: Numbers) -> None:
        while True:
            command = self._next()
            if command is None:
                raise SystemExit(0)
            if "begin" in command:
                raise BeginAgain(command)
            if "step" in command:
                return
            self._show_frame(numbers)

    def _numbers(self) -> Numbers:
        probe, ended = self._referee.probe, self._referee.ended
        if probe is None:
            return Numbers(0, 0.0, 0.0, 0)
        total, length = (probe.total, probe.length) if ended is None else ended[:2]
        return Numbers(probe.steps, probe.reward, total, length)

    def _show_frame(self, numbers: Numbers) -> None:
        if self._referee.probe is not None:
            self._screen.show(self._referee.probe.env, numbers)

    def _next(self) -> dict[str, Any] | None:
        line = self._commands.readline()
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found


def main(answers: int) -> None:
    """Never returns: libraries of the script must not change the exit code while they are torn down."""
    torch.set_num_threads(1)
    os.nice(NICENESS)
    code = 0
    try:
        start = json.loads(sys.stdin.readline())
        die_with_parent(int(start["parent"]))
        set_paths(Path(start["script"]))
        MatchPlayer(start, sys.stdin, answers).serve()
    except (Mismatch, CannotRender) as error:
        code = refuse(answers, f"The checkpoint cannot be played: {error}.", "")
    except SystemExit:  # the commands ended in the middle of an episode
        pass
    except BaseException as error:
        traceback.print_exc()
        code = refuse(answers, f"{type(error).__name__}: {error}".rstrip(".") + ".", "The script's own code raised it.")
        if not isinstance(error, Exception):
            raise
    sys.stdout.flush()
    os._exit(code)
