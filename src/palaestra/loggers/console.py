"""The live status: a table on a terminal, plain lines anywhere else. Always on stderr, never from a thread.

The table is drawn from `write`, at most four times a second, so it shows nothing between two iterations and costs
nothing while the trainer works. A terminal that was stopped with Ctrl-S, or a full pipe, is left alone
until it takes text again: it must not hold up the run.
"""

from __future__ import annotations

import sys
from collections import deque
from select import select
from typing import TYPE_CHECKING, TextIO

from palaestra.core.errors import escape_controls
from palaestra.core.lazy_import import lazy_import
from palaestra.loggers.status import StatusTracker
from palaestra.loggers.status_table import printable_text, status_line, status_table

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import live as rich_live
    from rich import text as rich_text
    from rich.console import Console
    from rich.live import Live

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.clock import Clock
    from palaestra.core.metrics_logger import Sample
    from palaestra.loggers.status import RunHeader
else:
    rich_console = lazy_import("rich.console")
    rich_live = lazy_import("rich.live")
    rich_text = lazy_import("rich.text")

TABLE_SECONDS = 0.25
LINE_SECONDS = 1.0
WAITING_NOTES = 100


def stderr_console() -> Console | LineConsole:
    """rich understands NO_COLOR, FORCE_COLOR and TERM=dumb; but a forced colour makes no terminal of a pipe."""
    return rich_console.Console(stderr=True, highlight=False) if sys.stderr.isatty() else LineConsole()


class ConsoleLogger:
    name = "console"

    def __init__(self, header: RunHeader, clock: Clock, console: Console | LineConsole | None = None) -> None:
        self._console = console or stderr_console()
        self._clock = clock
        self._board = StatusTracker(header)
        self._drawn_at = float("-inf")
        self._is_stale = False
        self._notes: deque[str] = deque(maxlen=WAITING_NOTES)
        self._live = None if isinstance(self._console, LineConsole) else _start_table(self._console)

    def write(self, sample: Sample) -> None:
        self._board.take(sample)
        self._is_stale = True
        interval = LINE_SECONDS if self._live is None else TABLE_SECONDS
        if self._clock.monotonic() - self._drawn_at >= interval:
            self._draw()

    def rewind(self, step: int) -> None:
        self._board.drop_after(step)

    def checkpoint_saved(self, checkpoint: Checkpoint) -> None:
        self._board.checkpoint = (checkpoint.epoch, checkpoint.agent_step)
        self._is_stale = self._is_stale or self._live is not None  # plain lines do not show it

    def note(self, text: str) -> None:
        """A line above the table, which stays whole; brackets in a name are no markup."""
        self._notes.append(printable_text(text))
        if can_encode(self._console):
            self._print_notes()

    def flush(self) -> None:
        """Nothing waits here to be made durable."""

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._draw()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        """Show what is not shown yet."""
        self._drawn_at = self._clock.monotonic()
        if not can_encode(self._console):
            return
        self._print_notes()
        if not self._is_stale:
            return
        self._is_stale = False
        status = self._board.status()
        if self._live is None:
            self._say(status_line(status))
        else:
            self._live.update(status_table(status), refresh=True)

    def _print_notes(self) -> None:
        while self._notes:
            self._say(self._notes.popleft())

    def _say(self, line: str) -> None:
        line = escape_controls(line, keep="\n\t")
        if isinstance(self._console, LineConsole):
            self._console.say(line)
        else:
            self._console.print(rich_text.Text(line), soft_wrap=True)


def _start_table(console: Console) -> Live | None:
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    # stdout stays what it is: with --json it is the user's pipe
    live = rich_live.Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=True)
    live.start()
    return live


def can_encode(console: Console | LineConsole) -> bool:
    """Whether a page of text can be written now without waiting. What has no descriptor never waits."""
    try:
        _, writable, _ = select([], [console.file], [], 0)
    except (OSError, ValueError):
        return True
    return bool(writable)


class LineConsole:
    @property
    def file(self) -> TextIO:
        """The current `sys.stderr`, which tests and notebooks replace."""
        return sys.stderr

    def say(self, line: str) -> None:
        self.file.write(f"{line}\n")
        self.file.flush()
