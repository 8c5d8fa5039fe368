"""metrics.csv: one row per sample or interval of them, for spreadsheets and pandas.

A metric that appears for the first time adds a column: the file is then written anew beside the old one and put
in its place in one step, so that a reader sees the old table or the new one, never half of either.
"""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from palaestra.loggers.samples import all_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from palaestra.core.metrics_logger import Sample

    Row = dict[str, str]

STEP = "step"
AT = "at"
ITERATIONS = "interval_iterations"  # of a row that stands for several; such rows also have `min/…` and `max/…`


class CsvLogger:
    name = "csv"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[str] = [STEP, AT]
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._rewrite(self._columns, _keep_all)
        self._file = path.open("a", newline="", encoding="utf-8")
        if not self._file.tell():
            self._file.write(_line(self._columns))

    def write(self, sample: Sample) -> None:
        values = {STEP: sample.step, AT: sample.at, **all_values(sample)}
        if sample.interval is not None:
            values[ITERATIONS] = sample.interval.iterations
        new_columns = [column for column in values if column not in self._columns]
        if new_columns:
            self._reopened(lambda: self._rewrite(new_columns, _keep_all))
        self._file.write(_line([repr(values[column]) if column in values else "" for column in self._columns]))

    def rewind(self, step: int) -> None:
        """Remove the rows after `step`."""
        self._reopened(lambda: self._rewrite([], lambda row: int(row[STEP]) <= step))

    def drop_intervals(self, first_step: int) -> None:
        self._reopened(lambda: self._rewrite([], lambda row: int(row[STEP]) < first_step or not row.get(ITERATIONS)))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _reopened(self, change: Callable[[], None]) -> None:
        self._file.close()
        change()
        self._file = self._path.open("a", newline="", encoding="utf-8")

    def _rewrite(self, new_columns: Iterable[str], keep: Callable[[Row], bool]) -> None:
        """Copy the whole rows that `keep` wants, widened; a line that a kill cut off is left behind."""
        beside = self._path.with_name(f"{self._path.name}.tmp")
        with (
            self._path.open(newline="", encoding="utf-8") as old,
            beside.open("w", newline="", encoding="utf-8") as new,
        ):
            header = _next_row(old)
            known = header or self._columns
            self._columns = [*known, *(column for column in new_columns if column not in known)]
            new.write(_line(self._columns))
            while row := _next_row(old):
                if len(row) == len(known) and keep(dict(zip(known, row, strict=True))):
                    new.write(_line([*row, *[""] * (len(self._columns) - len(known))]))
        beside.replace(self._path)


def _keep_all(_: Row) -> bool:
    return True


def _next_row(file: TextIO) -> list[str]:
    """The next complete row; none at the end of the file or where its last line was torn."""
    line = file.readline()
    return next(csv.reader([line])) if line.endswith("\n") else []


def _line(cells: Sequence[str]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
