"""A W&B table that grows with the run, logged without sending again what was sent.

Rows that wait to be logged also stand in a file, so that a killed run loses none: the next session logs them.

W&B shows at most 100 increments of a table, so the pauses between them grow with the run: 100 increments last
for more than two weeks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palaestra.core.clock import Clock

FIRST_PAUSE_SECONDS = 30.0
PAUSE_SHARE = 0.1  # of the time since the start
MAX_ROWS = 200_000  # W&B reads no more


class CumulativeTable:
    def __init__(self, wandb: Any, run: Any, key: str, columns: Sequence[str], waiting: Path, clock: Clock) -> None:
        self._run = run
        self._key = key
        self._clock = clock
        self._started_at = clock.monotonic()
        self._due_at = self._started_at + FIRST_PAUSE_SECONDS
        self._row_count = 0
        self._logged_count = 0
        # types are not checked: a column without values yet may become one of numbers
        self._table = wandb.Table(columns=list(columns), log_mode="INCREMENTAL", allow_mixed_types=True)

        waiting_rows = _complete_lines(waiting)
        self._waiting = waiting.open("w", buffering=1, encoding="utf-8")
        for row in waiting_rows:
            self.add(row)

    def add(self, row: Sequence[Any]) -> None:
        if self._row_count < MAX_ROWS:
            self._waiting.write(json.dumps(row) + "\n")
            self._table.add_data(*row)
            self._row_count += 1

    @property
    def is_due(self) -> bool:
        return self._clock.monotonic() >= self._due_at

    def log(self) -> None:
        """Send the rows since the last time."""
        if self._row_count > self._logged_count:
            self._run.log({self._key: self._table})
            self._logged_count = self._row_count
            self._waiting.seek(0)
            self._waiting.truncate()
        now = self._clock.monotonic()
        self._due_at = now + max(FIRST_PAUSE_SECONDS, PAUSE_SHARE * (now - self._started_at))

    def close(self) -> None:
        self._waiting.close()


def _complete_lines(path: Path) -> list[list[Any]]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
