"""`runs/by-name/`: one link per name, and the file system's word for who came first."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.runs.files import fsync_directory
from palaestra.runs.identity import is_run_id

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class RunNames:
    root: Path

    @property
    def links(self) -> Path:
        return self.root / "by-name"

    def claim(self, name: str, run_id: str) -> bool:
        """Point `name` to the run; False when another run has it. Two claims at once: one wins."""
        self.links.mkdir(mode=0o700, exist_ok=True)
        link = self.links / name
        if link.is_symlink() and self.find(name) is None:
            link.unlink(missing_ok=True)  # its run was deleted by hand
        try:
            link.symlink_to(f"../{run_id}")
        except FileExistsError:
            return False
        fsync_directory(self.links)
        return True

    def release(self, name: str, run_id: str) -> None:
        """Take the name away from that run; another run's link stays."""
        if self.find(name) == run_id:
            (self.links / name).unlink(missing_ok=True)
            fsync_directory(self.links)

    def find(self, name: str) -> str | None:
        """Id of the run with that name, if it is there. Links that point anywhere else are not followed."""
        try:
            target = str((self.links / name).readlink())
        except (OSError, ValueError):
            return None
        run_id = target.removeprefix("../")
        return run_id if is_run_id(run_id) and (self.root / run_id).is_dir() else None

    def linked(self) -> set[str]:
        """Ids of all runs that a name points to; whether they are still there is not asked."""
        found = set()
        for name in self.all():
            with contextlib.suppress(OSError):
                found.add(str((self.links / name).readlink()).removeprefix("../"))
        return found

    def name_of(self, run_id: str) -> str | None:
        return next((name for name in self.all() if self.find(name) == run_id), None)

    def all(self) -> list[str]:
        return sorted(link.name for link in self.links.iterdir()) if self.links.is_dir() else []
