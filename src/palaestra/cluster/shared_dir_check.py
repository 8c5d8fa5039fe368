"""Which machines see the driver's folder of runs? A file is made in it here, and looked for over there."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def marker_file(runs_root: Path) -> Iterator[str]:
    """Its name, for the block's duration. Folders that were made for it and stayed empty are removed."""
    made = [folder for folder in (runs_root, *runs_root.parents) if not folder.exists()]
    runs_root.mkdir(parents=True, exist_ok=True)
    file = runs_root / f".shared-{uuid4().hex}"
    try:
        file.touch()
        yield file.name
    finally:
        file.unlink(missing_ok=True)
        with suppress(OSError):  # runs were made in it meanwhile
            for folder in made:
                folder.rmdir()
