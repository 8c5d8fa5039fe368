"""What a daemon may use of its machine, and how patient it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from palaestra.core.worker_kind import Resources
from palaestra.runs.environment import describe_hardware

MEBIBYTE = 1 << 20


def machine_resources() -> Resources:
    """Cores this process may use, graphics cards and memory as found."""
    found = describe_hardware()
    return Resources(
        cpus=int(found["usable_threads"] or 1),
        gpus=len(found["gpus"]),
        memory_mb=int(found["memory_bytes"]) // MEBIBYTE,
    )


@dataclass(frozen=True)
class DaemonSettings:
    machine: Resources = field(default_factory=machine_resources)
    queue_limit: int = 10_000  # waiting runs; one more is refused
    grace_seconds: float = 30.0  # between asking a worker to stop and killing its whole tree
    log_bytes: int = 16 * MEBIBYTE  # of a worker's output; the piece before it is kept too
    tick_seconds: float = 0.25  # between two looks at what running workers write of themselves
    scan_seconds: float = 2.0  # between two looks for runs that others made
    silence_seconds: float = 120.0  # without a heartbeat a running worker counts as silent
