"""Everything on disk about a run.

`palaestra.runs()` lists them. A package and a function cannot share a name, so the package itself can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.core.run import RunRecord


class _Runs(ModuleType):
    def __call__(self, runs_root: Path | None = None) -> list[RunRecord]:
        """All runs, newest first."""
        records: list[RunRecord] = import_module("palaestra.runs.store").RunStore(runs_root).list()
        return records


sys.modules[__name__].__class__ = _Runs
