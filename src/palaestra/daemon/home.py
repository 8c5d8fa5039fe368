"""Where a daemon keeps what is its own, beside the runs it serves."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.daemon.errors import StoreInUse, StoreRefused
from palaestra.runs.files import sweep_temporaries
from palaestra.runs.lock import AlreadyHeld, hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class DaemonHome:
    root: Path  # of the runs

    @property
    def path(self) -> Path:
        return self.root / ".palaestra"

    @property
    def index_file(self) -> Path:
        return self.path / "daemon.db"

    @property
    def lock_file(self) -> Path:
        return self.path / "daemon.lock"

    @property
    def series(self) -> Path:
        """Copies of the runs' curves, by run."""
        return self.path / "series"

    def curves(self, run_id: str) -> Path:
        return self.series / run_id

    def make(self) -> DaemonHome:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreRefused(
                f"The runs directory {self.root} cannot be written: {error.strerror}.",
                "Make room, or choose another one with PALAESTRA_RUNS_DIR.",
            ) from error
        return self

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One daemon (or one repair) at a time; the kernel frees the lock of a process that was killed."""
        try:
            with hold(self.lock_file):
                for place in {self.root, self.lock_file.parent}:
                    sweep_temporaries(place)
                yield
        except AlreadyHeld as error:
            who = f"process {error.pid}" if error.pid else "another process"
            raise StoreInUse(
                f"The runs in {self.root} are served by a daemon already ({who}).",
                "Use that one, end it first, or choose other runs with PALAESTRA_RUNS_DIR.",
                error.pid,
            ) from error
