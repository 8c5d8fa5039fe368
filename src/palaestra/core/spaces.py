"""What goes into a policy and what comes out of it, without Gymnasium or torch.

These specs are written into every checkpoint, so that a file alone says what it can play.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class BoxSpec:
    """Numbers of one shape. `low` and `high` are flat, or one number when all entries agree."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: tuple[float, ...] = (float("-inf"),)
    high: tuple[float, ...] = (float("inf"),)

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class DiscreteSpec:
    count: int
    start: int = 0


@dataclass(frozen=True)
class MultiDiscreteSpec:
    counts: tuple[int, ...]
    starts: tuple[int, ...] = ()


@dataclass(frozen=True)
class DictSpec:
    """Named parts, in a fixed order."""

    parts: tuple[tuple[str, SpaceSpec], ...]


SpaceSpec = BoxSpec | DiscreteSpec | MultiDiscreteSpec | DictSpec


@dataclass(frozen=True)
class FeatureSpec:
    """One named number of an observation; ids may differ between environments, names do not."""

    name: str
    id: int
    normalization: float = 1.0


@dataclass(frozen=True)
class EnvInterface:
    """Everything a policy may know of its environment."""

    observation_space: SpaceSpec
    action_space: SpaceSpec
    features: tuple[FeatureSpec, ...] = ()
