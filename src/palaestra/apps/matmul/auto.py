"""How often to apply a scheme at which size: as was measured here, and never on a guess.

Where nothing was gained the answer is the platform's own function itself, so that it costs nothing to have asked.
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
WORTHWHILE = 1.03  # of the gain that is sure: what was measured in one hour must still hold in the next


@dataclass(frozen=True)
class AutoTable:
    """For each dtype the measured sizes, ascending, with the levels that paid there.

    0: the leaf alone, which for floats is the platform's own function; -1: NumPy's, where our leaf is slower.
    """

    levels: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def levels_at(self, dtype: str, size: int) -> int:
        """Between two measured sizes the fewer levels of both; beyond the largest as there, below the smallest none."""
        rows = self.levels.get(dtype, ())
        below = [levels for at, levels in rows if at <= size]
        above = [levels for at, levels in rows if at >= size]
        if not below:
            return NUMPY
        return min(below[-1], above[0]) if above else below[-1]

    def agreeing(self, other: AutoTable) -> AutoTable:
        """Of two measurements of one size the fewer levels hold."""
        merged: dict[str, dict[int, int]] = {}
        for table in (self, other):
            for dtype, rows in table.levels.items():
                known = merged.setdefault(dtype, {})
                for size, levels in rows:
                    known[size] = min(levels, known.get(size, levels))
        return AutoTable({dtype: tuple(sorted(rows.items())) for dtype, rows in merged.items()})

    def crossover(self, dtype: str) -> int | None:
        """The smallest measured size from which on every larger one gains, too."""
        found = None
        for size, levels in reversed(self.levels.get(dtype, ())):
            if levels < 1:
                break
            found = size
        return found


def choose(table: AutoTable, executors: dict[str, Executor], dtype: str, size: int) -> Multiply:
    """What to call with (a, b, out) for matrices of this size: NumPy's own function, or the scheme."""
    levels = table.levels_at(dtype, size)
    if levels == NUMPY or dtype not in executors or (levels == 0 and dtype.startswith("float")):
        return np.matmul
    executor = executors[dtype]

    def multiply(a: Any, b: Any, out: Any = None) -> Any:
        return executor(a, b, out, levels)

    return multiply
