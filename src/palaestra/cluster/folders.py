"""Where Ray may write: a folder of its own for each session, that nobody else can enter."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "palaestra-ray-"
OWNER = "owner"  # a file with the process that made the folder: pid, and when it started
LONGEST = 45  # Ray's sockets lie 62 characters deeper, and the kernel takes 107


@contextmanager
def private_folder() -> Iterator[Path]:
    """Ray opens its own folder to everybody, so it lies in one that is ours alone."""
    base = tempfile.gettempdir()
    if len(base) > LONGEST - len("/palaestra-ray-12345678/r"):
        base = "/tmp"  # noqa: S108  mkdtemp makes a folder that is ours alone
    sweep(Path(base))
    outer = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    (outer / OWNER).write_text(f"{os.getpid()} {process_started_at(os.getpid())}", encoding="ascii")
    inner = outer / "r"
    inner.mkdir()
    try:
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)  # a process of Ray's may still be writing its last line


def sweep(base: Path) -> None:
    """Remove what sessions left behind that were killed: our own folders, of processes that are no more."""
    for folder in base.glob(f"{PREFIX}*"):
        try:
            if folder.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            pid, started_at = (folder / OWNER).read_text(encoding="ascii").split()
            if not is_alive(int(pid), float(started_at)):
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, ValueError):  # gone meanwhile, or just being made
            continue
