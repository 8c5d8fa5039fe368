"""How a process of ours is started that steps or draws environments: nothing of this one is copied into it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STANDARD_ERROR = 2


def start_child(module: str, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """`python -m module DESCRIPTOR… PARENT`; threads and locks of torch would not survive a fork.

    PARENT is the pid with which it should end, or 0 when the thread that starts it may end before this process.
    OSError when it cannot be started.
    """
    own_thread_may_end = threading.current_thread() is not threading.main_thread()
    words = (*descriptors, 0 if own_thread_may_end else os.getpid())
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=STANDARD_ERROR,  # what an environment prints must not get between what `--json` prints
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _same_modules()},
        pass_fds=descriptors,
    )


def _same_modules() -> str:
    """So that it imports what this process would, and from nowhere else."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
