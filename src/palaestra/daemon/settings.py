"""Settings of a daemon: the resources of its machine, its time limits, and its directory."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palaestra.core.worker_kind import Resources
from palaestra.daemon.errors import StoreInUse, StoreRefused
from palaestra.runs.environment import describe_hardware
from palaestra.runs.files import sweep_temporaries
from palaestra.runs.lock import AlreadyHeld, hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEBIBYTE = 1 << 20


def machine_resources() -> Resources:
    """Returns the CPUs this process may use, the GPUs and the memory."""
    found = describe_hardware()
    return Resources(
        cpus=int(found["usable_threads"] or 1),
        gpus=len(found["gpus"]),
        memory_mb=int(found["memory_bytes"]) // MEBIBYTE,
    )


@dataclass(frozen=True)
class DaemonSettings:
    """Resources and limits."""

    machine: Resources = field(default_factory=machine_resources)
    queue_limit: int = 10_000  # waiting runs; further ones are refused
    grace_seconds: float = 30.0  # between the request to stop and the kill of the process tree
    log_bytes: int = 16 * MEBIBYTE  # of a worker's output, which is truncated at this size
    tick_seconds: float = 0.25  # between two checks of running workers
    scan_seconds: float = 2.0  # between two scans for external runs
    silence_seconds: float = 120.0  # a running worker without a heartbeat counts as silent


@dataclass(frozen=True)
class DaemonDirectory:
    """The daemon's own files in the runs directory."""

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
        """Cached series of the runs' metrics."""
        return self.path / "series"

    def series_directory(self, run_id: str) -> Path:
        return self.series / run_id

    def create(self) -> DaemonDirectory:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreRefused(
                f"Cannot write to the runs directory {self.root}: {error.strerror}.",
                "Free disk space, or set PALAESTRA_RUNS_DIR to another directory.",
            ) from error
        return self

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the directory for one daemon or repair; the kernel releases the lock of a killed process."""
        try:
            with hold(self.lock_file):
                for directory in {self.root, self.lock_file.parent}:
                    sweep_temporaries(directory)
                yield
        except AlreadyHeld as error:
            holder = f"process {error.pid}" if error.pid else "another process"
            raise StoreInUse(
                f"A daemon already serves {self.root} ({holder}).",
                "Use it, stop it first, or set PALAESTRA_RUNS_DIR to another directory.",
                error.pid,
            ) from error
