"""Where Ray may write: a folder of its own for each session, that nobody else can enter."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 45  # Ray's sockets lie 62 characters deeper, and the kernel takes 107


@contextmanager
def private_folder() -> Iterator[Path]:
    """Ray opens its own folder to everybody, so it lies in one that is ours alone."""
    base = tempfile.gettempdir()
    if len(base) > LONGEST - len("/palaestra-ray-12345678/r"):
        base = "/tmp"  # noqa: S108  mkdtemp makes a folder that is ours alone
    outer = Path(tempfile.mkdtemp(prefix="palaestra-ray-", dir=base))
    inner = outer / "r"
    inner.mkdir()
    try:
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)  # a process of Ray's may still be writing its last line
