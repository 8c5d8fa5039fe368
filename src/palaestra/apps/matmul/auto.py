"""Chooses the recursion depth of a scheme by matrix size, from measurements on this machine.

Without a measured gain `choose` returns NumPy's own function, so that asking costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from palaestra.apps.matmul.benchmark.executor import Executor

Multiply = Callable[..., Any]
NUMPY = -1
MIN_SURE_GAIN = 1.03  # lower bound of the gain, so that it also holds in later measurements


@dataclass(frozen=True)
class AutoTable:
    """For each dtype the measured sizes, ascending, with the best levels.

    0: the leaf alone, which for floats is NumPy's function; -1: NumPy's function, where our leaf is slower.
    """

    levels: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def levels_at(self, dtype: str, size: int) -> int:
        """Between two sizes the smaller levels of both; above the largest its levels, below the smallest none."""
        rows = self.levels.get(dtype, ())
        below = [levels for at, levels in rows if at <= size]
        above = [levels for at, levels in rows if at >= size]
        if not below:
            return NUMPY
        return min(below[-1], above[0]) if above else below[-1]

    def merge(self, other: AutoTable) -> AutoTable:
        """Merges two tables; where both have a size, the smaller number of levels wins."""
        merged: dict[str, dict[int, int]] = {}
        for table in (self, other):
            for dtype, rows in table.levels.items():
                known = merged.setdefault(dtype, {})
                for size, levels in rows:
                    known[size] = min(levels, known.get(size, levels))
        return AutoTable({dtype: tuple(sorted(rows.items())) for dtype, rows in merged.items()})

    def crossover(self, dtype: str) -> int | None:
        """The smallest measured size from which all larger ones gain as well."""
        found = None
        for size, levels in reversed(self.levels.get(dtype, ())):
            if levels < 1:
                break
            found = size
        return found


def choose(table: AutoTable, executors: dict[str, Executor], dtype: str, size: int) -> Multiply:
    """The function to call with (a, b, out) for matrices of this size: NumPy's or the scheme's."""
    levels = table.levels_at(dtype, size)
    if levels == NUMPY or dtype not in executors or (levels == 0 and dtype.startswith("float")):
        return np.matmul
    executor = executors[dtype]

    def multiply(a: Any, b: Any, out: Any = None) -> Any:
        return executor(a, b, out, levels)

    return multiply
