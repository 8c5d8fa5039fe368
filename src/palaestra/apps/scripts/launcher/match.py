"""`python bootstrap.py match FD`: plays episodes with the networks of a checkpoint step by step, for a match.

The first line of standard input names the checkpoint, the frame buffer and its slot. Commands follow: `{"begin": …}`,
`{"step": true}` and `{"show": true}`. Every reset and step is confirmed by a line to FD once its frame is written.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import IO, Any

import torch

from ....rendering.frame_buffer import FrameBufferError, FrameBufferFile
from ....rendering.frame_format import Numbers
from ....rendering.frame_writer import FrameWriter
from ....rendering.images import fit
from ....rendering.offscreen import CannotRender, OffscreenRenderer
from ....rendering.render_process import largest_side_of
from .play import Player, report_error, report_exception, write_reply
from .run import die_with_parent, set_paths
from .weights import Mismatch

NICENESS = 10


class EpisodeRequested(Exception):
    """A new episode was requested before the current one ended."""

    def __init__(self, command: dict[str, Any]) -> None:
        super().__init__()
        self.command = command


class SlotView:
    """Writes frames of one environment into one slot while a viewer requests that slot."""

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
    """A player that waits for the next command after every step."""

    def __init__(self, start: dict[str, Any], commands: IO[str], descriptor: int) -> None:
        super().__init__(start)
        self._commands = commands
        self._descriptor = descriptor
        self._screen = SlotView(Path(start["frame_buffer"]), int(start["slot"]))

    def serve(self) -> None:
        """Plays episodes until standard input is closed."""
        command = self._next_command()
        while command is not None:
            if "begin" not in command:  # a late command of an episode that has ended
                command = self._next_command()
                continue
            try:
                for _ in self.episodes(command["begin"]):
                    pass
                command = self._next_command()
            except EpisodeRequested as request:
                command = request.command

    def _after_step(self) -> None:
        """Called after the reset and after every step."""
        is_over = self._counter.ended is not None
        numbers = self._numbers()
        self._show_frame(numbers)
        figures = {"reward": numbers.reward, "total_reward": numbers.total_reward, "length": numbers.length}
        write_reply(self._descriptor, {"at": {**figures, "is_over": is_over}})
        if not is_over:
            self._wait(numbers)

    def _wait(self, numbers: Numbers) -> None:
        while True:
            command = self._next_command()
            if command is None:
                raise SystemExit(0)
            if "begin" in command:
                raise EpisodeRequested(command)
            if "step" in command:
                return
            self._show_frame(numbers)

    def _numbers(self) -> Numbers:
        probe, ended = self._counter.probe, self._counter.ended
        if probe is None:
            return Numbers(0, 0.0, 0.0, 0)
        total, length = (probe.total, probe.length) if ended is None else ended[:2]
        return Numbers(probe.steps, probe.reward, total, length)

    def _show_frame(self, numbers: Numbers) -> None:
        if self._counter.probe is not None:
            self._screen.show(self._counter.probe.env, numbers)

    def _next_command(self) -> dict[str, Any] | None:
        line = self._commands.readline()
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found


def main(descriptor: int) -> None:
    """Never returns: exit handlers of the script's libraries must not change the exit code."""
    torch.set_num_threads(1)
    os.nice(NICENESS)
    code = 0
    try:
        start = json.loads(sys.stdin.readline())
        die_with_parent(int(start["parent"]))
        set_paths(Path(start["script"]))
        MatchPlayer(start, sys.stdin, descriptor).serve()
    except (Mismatch, CannotRender) as error:
        code = report_error(descriptor, f"The checkpoint cannot be played: {error}.", "")
    except SystemExit:  # standard input was closed during an episode
        pass
    except BaseException as error:
        code = report_exception(descriptor, error)
        if not isinstance(error, Exception):
            raise
    sys.stdout.flush()
    os._exit(code)
