"""The live status: a table on a terminal, plain lines anywhere else. Always on stderr, never from a thread.

The table is drawn from `write`, at most four times a second, so it shows nothing between two iterations and costs
nothing while the trainer works.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from palaestra.sinks.status import StatusBoard
from palaestra.sinks.status_table import plain_line, printable, status_table

if TYPE_CHECKING:
    from palaestra.contracts.checkpoint import Checkpoint
    from palaestra.contracts.clock import Clock
    from palaestra.contracts.sink import Sample
    from palaestra.sinks.status import RunHeader

TABLE_SECONDS = 0.25
LINE_SECONDS = 1.0


def stderr_console() -> Console:
    """rich understands NO_COLOR, FORCE_COLOR and TERM=dumb; but a forced colour makes no terminal of a pipe."""
    return Console(stderr=True, highlight=False, force_terminal=None if sys.stderr.isatty() else False)


class ConsoleSink:
    name = "console"

    def __init__(self, header: RunHeader, clock: Clock, console: Console | None = None) -> None:
        self._console = console or stderr_console()
        self._clock = clock
        self._board = StatusBoard(header)
        self._drawn_at = float("-inf")
        self._is_stale = False
        self._live = self._start_table() if self._console.is_terminal and not self._console.is_dumb_terminal else None

    def write(self, sample: Sample) -> None:
        self._board.take(sample)
        self._is_stale = True
        interval = LINE_SECONDS if self._live is None else TABLE_SECONDS
        if self._clock.monotonic() - self._drawn_at >= interval:
            self._draw()

    def rewind(self, step: int) -> None:
        self._board.forget_after(step)

    def checkpoint_saved(self, checkpoint: Checkpoint) -> None:
        self._board.checkpoint = (checkpoint.epoch, checkpoint.agent_step)

    def note(self, text: str) -> None:
        """A line above the table, which stays whole; brackets in a name are no markup."""
        self._console.print(Text(printable(text)), soft_wrap=True)

    def flush(self) -> None:
        """Nothing waits here to be made durable."""

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self._is_stale:
            self._draw()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _start_table(self) -> Live:
        # stdout stays what it is: with --json it is the user's pipe
        live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=True)
        live.start()
        return live

    def _draw(self) -> None:
        self._drawn_at = self._clock.monotonic()
        self._is_stale = False
        status = self._board.status()
        if self._live is None:
            self._console.print(Text(plain_line(status)), soft_wrap=True)
        else:
            self._live.update(status_table(status), refresh=True)
