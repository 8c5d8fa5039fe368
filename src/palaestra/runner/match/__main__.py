"""`python -m palaestra.runner.match`: plays a match that a viewer watches and steers.

The first line of standard input says what is played (`frame_buffer`, `runs`, `plan`); further lines are what the viewer
does: `{"action": 2}`, `{"pace": 5}`, `{"paused": true}`, `{"again": 7}`. Events go to standard output, a line of JSON
each. The process ends with its input. It runs at low priority and writes its frames into a frame buffer.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch

from palaestra.core.errors import PalaestraError
from palaestra.rendering.frame_buffer import FrameBufferOwner, frame_buffer_path, remove_dead_frame_buffers
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.runner.match.match import Display, Match
from palaestra.runner.match.plan import ROLE, MatchPlan
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from palaestra.runner.match.plan import MatchMessage

    Commands = queue.SimpleQueue[dict[str, Any] | None]  # None: there are no more

NICENESS = 10
LARGEST_SIDE = 640  # pixels
PAUSE_SECONDS = 1.2  # after a round, so that its end can be seen
WAIT_SECONDS = 0.25  # for a command, while nothing moves


class MatchController:
    """Steps the match at its pace and carries out the viewer's commands."""

    def __init__(self, match: Match, display: Display, pace: float, commands: Commands) -> None:
        self._match = match
        self._display = display
        self._commands = commands
        self._pace = pace
        self._is_paused = False
        self._action = 0  # of the key that is held down
        self._due = time.monotonic()

    def run(self) -> None:
        """Returns when there are no more commands."""
        while self._wait_for_command():
            now = time.monotonic()
            if self._match.is_over:
                if now >= self._due:
                    self._match.next_round()
                    self._display.show(self._match.seats)
                    self._due = now + self._interval
            elif self._pace and not self._is_paused and now >= self._due:
                self._step(self._action)
                self._due = max(self._due + self._interval, now)
            self._display.refresh(self._match.seats)

    @property
    def _interval(self) -> float:
        return 1 / self._pace if self._pace else WAIT_SECONDS

    def _step(self, action: int) -> None:
        self._match.step(action)
        self._display.show(self._match.seats)
        if self._match.is_over:
            self._due = time.monotonic() + PAUSE_SECONDS

    def _wait_for_command(self) -> bool:
        """Waits until a command comes or a step is due, and carries it out; False when there are no more commands."""
        is_moving = self._match.is_over or (self._pace and not self._is_paused)
        timeout = min(WAIT_SECONDS, max(0.0, self._due - time.monotonic())) if is_moving else WAIT_SECONDS
        try:
            command = self._commands.get(timeout=timeout)
        except queue.Empty:
            return True
        if command is None:
            return False
        self._execute(command)
        return True

    def _execute(self, command: dict[str, Any]) -> None:
        if "pace" in command:
            self._pace = float(command["pace"])
            self._due = time.monotonic()
        if "paused" in command:
            self._is_paused = bool(command["paused"])
            self._due = time.monotonic()
        if "again" in command:
            self._match.next_round(int(command["again"]))
            self._display.show(self._match.seats)
        if "action" in command:
            self._action = int(command["action"])
            if not self._pace and not self._match.is_over:
                self._step(self._action)


def read_commands(stream: IO[str], commands: Commands) -> None:
    for line in stream:
        commands.put(json.loads(line))
    commands.put(None)


def main(stream: IO[str], out: IO[str]) -> int:
    def publish(message: MatchMessage) -> None:
        print(json.dumps(message), file=out, flush=True)

    start = json.loads(stream.readline())
    plan = MatchPlan.model_validate(start["plan"])
    commands: Commands = queue.SimpleQueue()
    threading.Thread(target=read_commands, args=(stream, commands), daemon=True).start()
    remove_dead_frame_buffers(is_alive)
    path = frame_buffer_path(start["frame_buffer"], ROLE)
    started_at = process_started_at(os.getpid()) or 0.0
    try:
        with (
            closing(Match(plan, Path(start["runs"]), publish, path)) as match,
            FrameBufferOwner(path, len(plan.seats), 3 * LARGEST_SIDE**2, started_at) as owner,
            closing(FrameWriter(owner.descriptor, owner.about)) as writer,
            closing(Display(writer, LARGEST_SIDE)) as display,
        ):
            MatchController(match, display, plan.pace, commands).run()
    except PalaestraError as error:
        publish({"error": {"message": error.message, "hint": error.hint}})
        return error.exit_code
    return 0


if __name__ == "__main__":
    os.nice(NICENESS)
    torch.set_num_threads(1)
    sys.exit(main(sys.stdin, sys.stdout))
