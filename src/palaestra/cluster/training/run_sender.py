"""Reports changes of a run to the driver, from a machine that trains it on its own disk."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.cluster.training.run_changes import Appended, RunScanner, size_of
from palaestra.runs.identity import is_run_id
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.cluster.training.run_changes import Change

MAX_REPORT_BYTES = 32 << 20  # of changes in one report; a single larger one travels alone
SCAN_SECONDS = 5.0  # between scans, while there is no new checkpoint
CHECK_SECONDS = 1.0  # between scans where there is one
SCAN_SHARE = 10.0  # a scan may take a tenth of the time


@dataclass(frozen=True)
class RunReport:
    """Changes of one run, sent from the machine that trains it."""

    run_id: str
    changes: tuple[Change, ...]
    has_more: bool = False  # of the same scan


class RunSender:
    """Finds the run in its folder of runs and reports each change once."""

    def __init__(self, runs_root: Path, name: str) -> None:
        self._store = RunStore(runs_root)
        self._name = name
        self._scanner: RunScanner | None = None
        self._waiting: list[Change] = []
        self._was_last = False
        self._next_scan = self._next_check = float("-inf")

    @property
    def is_complete(self) -> bool:
        """Whether all changes of the last scan were reported, or there is no run."""
        return (self._was_last and not self._waiting) or self._find() is None

    def skip_received(self) -> None:
        """Skips the current files, which came from the driver, except the metrics, whose bytes may differ."""
        scanner = self._find()
        if scanner is not None:
            scanner.scan()
            scanner.forget_metrics()

    def report(self, *, is_last: bool = False) -> RunReport | None:
        """New changes, or None. With `is_last` everything is scanned once more; call until `is_complete`."""
        scanner = self._find()
        if scanner is None:
            return None
        is_due = not self._was_last and (is_last or self._is_due(scanner))
        if not self._waiting and is_due:
            began = time.monotonic()
            self._waiting, self._was_last = scanner.scan(is_last=is_last), is_last
            now = time.monotonic()
            pause = SCAN_SHARE * (now - began)
            self._next_scan, self._next_check = now + max(SCAN_SECONDS, pause), now + max(CHECK_SECONDS, pause)
        if not self._waiting:
            return None
        batch, self._waiting = split_report(self._waiting)
        return RunReport(scanner.directory.id, tuple(batch), bool(self._waiting))

    def _is_due(self, scanner: RunScanner) -> bool:
        now = time.monotonic()
        return now >= self._next_scan or (now >= self._next_check and scanner.has_new_checkpoint())

    def _find(self) -> RunScanner | None:
        if self._scanner is None and (directory := self._store.named(self._name)) is not None:
            self._scanner = RunScanner(directory)
        return self._scanner


class LogSender:
    """Sends the log of a follower rank on a machine without the leader's disk; it writes nothing else."""

    def __init__(self, runs_root: Path, rank: int) -> None:
        self._root = runs_root
        self._rank = rank
        self._sent = 0  # bytes

    @property
    def is_complete(self) -> bool:
        path = self._find()
        return path is None or path.stat().st_size <= self._sent

    def report(self, *, is_last: bool = False) -> RunReport | None:
        """Text added since the last report."""
        del is_last
        path = self._find()
        if path is None:
            return None
        with path.open("rb") as stream:
            stream.seek(self._sent)
            data = stream.read(MAX_REPORT_BYTES)
        self._sent += len(data)
        name = path.relative_to(path.parents[1]).as_posix()
        return RunReport(path.parents[1].name, (Appended(name, data),)) if data else None

    def _find(self) -> Path | None:
        """The newest run: checkpoints of other runs may be here, but not their logs."""
        found = [one for one in self._root.glob(f"*/logs/rank_{self._rank}.log") if is_run_id(one.parents[1].name)]
        return max(found, default=None)


def split_report(changes: list[Change]) -> tuple[list[Change], list[Change]]:
    """The first changes, at most `MAX_REPORT_BYTES` or a single one, and the rest."""
    count, size = 0, 0
    for change in changes:
        size += size_of(change)
        if count and size > MAX_REPORT_BYTES:
            break
        count += 1
    return changes[:count], changes[count:]
