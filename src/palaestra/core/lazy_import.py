"""Modules that are imported when something of them is first used.

torch takes longer to import than fifty updates take, and a native training of `policy=mlp` does without it to the end.
Files on the way to that update say at their top what they will need, and get it when they use it:

    if TYPE_CHECKING:
        import torch
    else:
        torch = lazy_import("torch")

Type checkers and import-linter see an ordinary import. See docs/decisions/0024-torch-is-imported-when-needed.md.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        """Looks the name up in the real module, so that a monkeypatched name is seen here."""
        return getattr(import_module(self.__name__), name)


def lazy_import(name: str) -> Any:
    """The module called `name`, imported when the first of its attributes is asked for."""
    return LazyModule(name)
