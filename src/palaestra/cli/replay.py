"""`palaestra replay FILE|RUN`: a recorded episode in the terminal, or what there is to say of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.candidates import run_names
from palaestra.cli.command import Command
from palaestra.cli.output import is_fancy, print_json, print_pairs
from palaestra.cli.parser import natural
from palaestra.cli.terminal import Terminal, is_terminal
from palaestra.core import plugins
from palaestra.core.errors import UsageError
from palaestra.runs.directory import RunDirectory
from palaestra.runs.replays import SUFFIX, newest_replay, read_kind
from palaestra.runs.store import RunStore, runs_root

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser
    from palaestra.core.app import Replay

LINES_BELOW = 4  # an empty one, status, bar, keys
SLOWEST, FASTEST = 0.1, 1000.0  # steps per second


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="file | run", help="replay file, or a run, whose newest replay is shown")
    parser.add_flag("--speed", type=float, default=8.0, metavar="N", help="steps per second; default: %(default)g")
    parser.add_flag("--step", type=natural, metavar="K", help="start at this step; without a terminal: print this step")
    parser.add_flag("--json", action="store_true", help="print a summary as one JSON object on stdout")


def run(arguments: Namespace) -> int:
    if not SLOWEST <= arguments.speed <= FASTEST:
        allowed = f"must be from {SLOWEST:g} to {FASTEST:g} steps per second"
        raise UsageError(f"Invalid value for --speed: {arguments.speed:g} ({allowed}).")
    path = find_replay(arguments.target)
    replay = open_replay(path)
    if arguments.step is not None and arguments.step > replay.length:
        raise UsageError(f"--step {arguments.step} is too large: {path.name} has steps 0 to {replay.length}.")
    if arguments.json:
        print_json({"file": path, **replay.summary()})
    elif is_terminal():
        show(replay, Playback(replay.length, step=arguments.step or 0, speed=arguments.speed))
    else:
        print_pairs({"file": path, **replay.summary()})
        print()
        print(replay.text_at(replay.length if arguments.step is None else arguments.step, color=is_fancy()))
    return 0


def find_replay(target: str) -> Path:
    path = Path(target).expanduser()
    if path.is_file() or target.endswith(SUFFIX):
        return path
    if path.is_dir() and RunDirectory(path).replays.is_dir():
        return newest_replay(RunDirectory(path.resolve()))
    return newest_replay(RunStore(runs_root()).resolve(target))


def open_replay(path: Path) -> Replay:
    replay: Replay = plugins.load("replays", read_kind(path))(path)
    return replay


def show(replay: Replay, playback: Playback) -> None:
    color = is_fancy()
    with Terminal() as terminal:
        due = time.monotonic()
        while not playback.is_over:
            terminal.show(_screen(replay, playback, terminal.size(), color=color))
            wait = playback.seconds_until_next
            key = terminal.key(None if wait is None else max(due + wait - time.monotonic(), 0))
            if key is None:
                due = max(due + (wait or 0), time.monotonic() - 1)  # a slow terminal is not chased for ever
                playback = playback.ticked()
            else:
                playback = playback.pressed(key)
                due = due if playback.seconds_until_next == wait else time.monotonic()


def _screen(replay: Replay, playback: Playback, size: tuple[int, int], *, color: bool) -> str:
    columns, lines = size
    picture = replay.text_at(
        playback.step, color=color, columns=columns, lines=max(lines - LINES_BELOW, 1), follow=playback.follow
    )
    return "\n".join([picture, "", replay.status_at(playback.step), playback.bar(columns), HELP])


COMMAND = Command(
    name="replay",
    summary="show a recorded episode in the terminal; 'palaestra eval RUN --replays' records episodes",
    examples=(
        "palaestra replay first",
        "palaestra replay first --step 10 --speed 4",
        "palaestra replay first --json",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=lambda _words: run_names(),
)

SPEEDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # steps per second
HELP = "space pause  \u2190 \u2192 step  + - speed  home end  tab follow  q quit"


@dataclass(frozen=True)
class Playback:
    length: int  # steps of the replay
    step: int = 0
    speed: float = 8.0
    is_paused: bool = False
    follow: int | None = None
    is_over: bool = False  # the person has left

    @property
    def seconds_until_next(self) -> float | None:
        """None: nothing moves until a key is pressed"""
        return None if self.is_paused or self.step >= self.length else 1 / self.speed

    def ticked(self) -> Playback:
        return replace(self, step=min(self.step + 1, self.length))

    def pressed(self, key: str) -> Playback:
        match key:
            case "space":
                at_end = self.step >= self.length
                return replace(self, is_paused=False, step=0) if at_end else replace(self, is_paused=not self.is_paused)
            case "right":
                return replace(self.ticked(), is_paused=True)
            case "left":
                return replace(self, step=max(self.step - 1, 0), is_paused=True)
            case "home":
                return replace(self, step=0)
            case "end":
                return replace(self, step=self.length)
            case "+" | "=" | "up":
                return replace(self, speed=min((speed for speed in SPEEDS if speed > self.speed), default=self.speed))
            case "-" | "_" | "down":
                return replace(self, speed=max((speed for speed in SPEEDS if speed < self.speed), default=self.speed))
            case "tab":
                return replace(self, follow=0 if self.follow is None else self.follow + 1)
            case "q" | "escape" | "gone":
                return replace(self, is_over=True)
        return self

    def bar(self, columns: int) -> str:
        """`▶ [#####-----] 120/256  8/s`"""
        state = "=" if self.is_paused else ">"
        tail = f" {self.step}/{self.length}  {self.speed:g}/s"
        room = max(columns - len(tail) - 4, 1)
        filled = room if self.length == 0 else round(room * self.step / self.length)
        return f"{state} [{'#' * filled}{'-' * (room - filled)}]{tail}"
