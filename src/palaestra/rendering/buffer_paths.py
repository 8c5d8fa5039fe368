"""Where frame buffers lie and what they are called. No other file knows."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from .errors import InvalidRequest

VARIABLE = "PALAESTRA_LANES_DIR"
MEMORY = Path("/dev/shm")  # noqa: S108  frame buffers are made with O_EXCL and mode 0600
LEAST_MEMORY = 8 << 20  # bytes in all; the pictures of a few small tiles
PREFIX, SUFFIX = "palaestra-", ".lane"
WORD = re.compile(r"[A-Za-z0-9_]{1,64}")
TRAIN, EVALUATE = "train", "eval"


def frame_buffers_directory() -> Path:
    """Memory where the machine has it as files that can be written, else its place for temporary ones.

    It depends on nothing that changes while runs come and go: whoever asks gets the same answer.
    """
    told = os.environ.get(VARIABLE)
    if told:
        return Path(told)
    return MEMORY if _is_of_use(MEMORY) else Path(tempfile.gettempdir())


def _is_of_use(directory: Path) -> bool:
    """Some containers have it read-only, closed to this user, or of no size."""
    if not os.access(directory, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(directory)
    return found.f_blocks * found.f_frsize >= LEAST_MEMORY


def frame_buffer_path(run_id: str, role: str = TRAIN) -> Path:
    """`role`: what its process does for the run; each has a frame buffer of its own."""
    for word in (run_id, role):
        if not WORD.fullmatch(word):
            raise InvalidRequest(f"Invalid name for a frame buffer: {word[:80]!r}.", "Use letters, digits and _.")
    return frame_buffers_directory() / f"{PREFIX}{run_id}-{role}{SUFFIX}"


def role_of_rank(rank: int) -> str:
    """Every process of a training has its own environments, and so its own frame buffer."""
    return TRAIN if rank == 0 else f"{TRAIN}{rank}"


def roles_of(run_id: str) -> list[str]:
    """Those of this run's frame buffers that are there now, the training's first."""
    beginning = frame_buffer_path(run_id, "x").name.removesuffix(f"x{SUFFIX}")
    found = [path.name.removeprefix(beginning).removesuffix(SUFFIX) for path in all_frame_buffers(f"{run_id}-")]
    return sorted(found, key=lambda role: (not role.startswith(TRAIN), len(role), role))


def all_frame_buffers(run: str = "") -> list[Path]:
    return sorted(frame_buffers_directory().glob(f"{PREFIX}{run}*{SUFFIX}"))
