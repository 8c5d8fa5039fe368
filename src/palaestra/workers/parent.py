"""No rank outlives whoever started it: a killed launcher must not leave trainers behind."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
LAUNCHER = "PALAESTRA_LAUNCHER_PID"  # set by ours; torchrun does not say who it is


def die_with_parent() -> None:
    """The kernel kills this process when its parent ends. Linux only; elsewhere the collectives' time-out remains."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    launcher = os.environ.get(LAUNCHER)
    if launcher is not None and os.getppid() != int(launcher):  # it was killed before we could ask
        os.kill(os.getpid(), signal.SIGKILL)
