"""What an app has found and keeps (group `palaestra.catalogues`): the daemon shows it without knowing the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Catalogue(Protocol):
    """Plain data for a page. Loading it must not load torch."""

    def listing(self, runs_root: Path, wanted: str) -> dict[str, Any]:
        """All entries, or those of one kind; `UsageError` when there is no such kind."""
        ...

    def entry(self, runs_root: Path, name: str) -> dict[str, Any]:
        """One of them in full; `NotFound` when there is none of that name."""
        ...
