"""Do all machines see one folder of runs? A file is made here, and looked for from there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def witness(runs_root: Path) -> Iterator[str]:
    """A file for as long as somebody looks for it; what was not there before is not there afterwards."""
    made = [folder for folder in (runs_root, *runs_root.parents) if not folder.exists()]
    runs_root.mkdir(parents=True, exist_ok=True)
    file = runs_root / f".witness-{uuid4().hex}"
    try:
        file.touch()
        yield file.name
    finally:
        file.unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
