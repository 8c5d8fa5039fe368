"""No rank outlives whoever started it: a killed launcher must not leave trainers behind."""

from __future__ import annotations

import os

from palaestra.runs import processes

LAUNCHER = "PALAESTRA_LAUNCHER_PID"  # set by ours; torchrun does not say who it is


def die_with_launcher() -> None:
    """Ours or torchrun. Where the kernel cannot do it, the collectives' time-out remains."""
    launcher = os.environ.get(LAUNCHER)
    processes.die_with_parent(None if launcher is None else int(launcher))
