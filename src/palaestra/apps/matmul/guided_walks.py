"""The guided walk that this machine has: compiled, or the same in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from palaestra.apps.matmul.python_guided import PythonGuidedWalk

try:
    from palaestra.apps.matmul import guided
except ImportError:  # installed without a compiler
    IS_COMPILED = False
else:
    IS_COMPILED = True

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.matmul.python_walk import Scheme

# What is known of a flip before it is taken; the same words in every format.
FEATURES = ("falls", "lighter", "gained_pairs", "lost_pairs", "fall_is_near", "undoes_last", "seen_before")
RANDOM = (0.0,) * len(FEATURES)


class GuidedWalk(Protocol):
    @property
    def current(self) -> Scheme: ...
    @property
    def rank(self) -> int: ...
    @property
    def dice(self) -> int: ...
    def go(self, steps: int, target: int) -> int: ...
    def features(self) -> list[list[float]]: ...
    def take(self, flip: int) -> None: ...


def begin_guided(scheme: Scheme, weights: Sequence[float], dice: int) -> GuidedWalk:
    """Weights as in FEATURES; those of RANDOM draw every flip alike."""
    if IS_COMPILED:
        return guided.GuidedWalk(scheme, weights, dice)
    return PythonGuidedWalk(scheme, weights, dice)
