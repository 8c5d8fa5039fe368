"""The walk that this machine has: compiled, or the same in Python."""

from __future__ import annotations

from typing import Protocol

from palaestra.apps.matmul.python_walk import PythonWalk, Scheme
from palaestra.core.errors import UsageError

try:
    from palaestra.apps.matmul import flips
except ImportError:  # installed without a compiler
    IS_COMPILED = False
else:
    IS_COMPILED = True

SLOW = "The search runs in Python here, hundreds of times slower: install Palaestra where a C++ compiler is."


class Walk(Protocol):
    """A walk that can be put away and taken up: what `resume_walk` takes is all there is to it."""

    @property
    def current(self) -> Scheme: ...
    @property
    def best(self) -> Scheme: ...
    @property
    def best_rank(self) -> int: ...
    @property
    def dice(self) -> int: ...
    @property
    def since_fall(self) -> int: ...
    def go(self, steps: int, plus_period: int, margin: int, target: int) -> int: ...


class TernaryWalk(Protocol):
    """Over zt; compiled only."""

    @property
    def best(self) -> Scheme: ...
    @property
    def best_rank(self) -> int: ...
    @property
    def weight(self) -> int: ...
    def go(self, steps: int, plus_period: int, margin: int, target: int, temperature: float) -> int: ...


def ternary_walk(current: Scheme, best: Scheme, dice: int, since_fall: int) -> TernaryWalk | None:
    """None where nothing was compiled: polishing then has other bases only."""
    return flips.TernaryWalk(current, best, dice, since_fall) if IS_COMPILED else None


def resume_walk(current: Scheme, best: Scheme, dice: int, since_fall: int) -> Walk:
    if IS_COMPILED:
        return flips.Walk(current, best, dice, since_fall)
    return PythonWalk(current, best, dice, since_fall)


def turning_walk(current: Scheme, best: Scheme, dice: int, since_fall: int) -> Walk:
    """Among schemes that can be turned, see `turning`; compiled only."""
    if not IS_COMPILED:  # it was begun elsewhere
        raise UsageError("This search walks among schemes that can be turned, which needs the compiled walk.", SLOW)
    return flips.TurningWalk(current, best, dice, since_fall)
