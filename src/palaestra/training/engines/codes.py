"""What the compiled engine is told of a network in numbers, and what it cannot take. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec

# source, target, inputs, outputs, weight, row of weights, bias or NO_BIAS, activation
LayerTuple = tuple[int, int, int, int, int, int, int, int]
# target, cells, most, whether larger codes count as that, size, place, bias, activation
TableTuple = tuple[int, int, int, bool, int, int, int, int]
CellTuple = tuple[int, int, int, int, int, int]  # kind, gates, target, size, weight across, bias across

NO_BIAS = -1


class Unfit(Exception):
    """The native engine cannot take this; the text says what, to be read after "native cannot take it:"."""


class ActivationCode(IntEnum):
    """As native/engine/plan.hpp numbers them."""

    NONE = 0
    TANH = 1
    RELU = 2
    GELU = 3


class HeadCode(IntEnum):
    CHOICES = 0
    NORMAL = 1


class InputCode(IntEnum):
    REALS = 0
    BYTES = 1
    CHOICES = 2


@dataclass
class LayerPlan:
    """As the compiled Learner takes it. Slot 0 is the observation; every layer reads one slot and adds to another.

    All layers and tables with the same target are one sum, with one activation behind it.
    """

    sizes: list[int]  # of the slots
    layers: list[LayerTuple] = field(default_factory=list)
    action_slot: int = 0
    value_slot: int = 0
    log_std: int = 0  # its place, for continuous actions
    cells: list[CellTuple] = field(default_factory=list)
    memory: list[str] = field(default_factory=list)  # what the cells' parts are called, in their order
    part: str | None = ""  # of the observation that slot 0 is made of; None: of none, its size is 0
    tables: list[TableTuple] = field(default_factory=list)
    table_parts: list[str] = field(default_factory=list)  # of the observation, whose bytes choose each table's rows


@dataclass(frozen=True)
class InputPlan:
    code: InputCode
    size: int  # numbers in the vector
    counts: list[int]
    firsts: list[int]


def part_of(space: SpaceSpec, name: str) -> SpaceSpec:
    """As the tape calls its blocks: "" is all of an observation without named parts."""
    return dict(space.parts)[name] if isinstance(space, DictSpec) else space


def plan_input(space: SpaceSpec) -> InputPlan:
    """How the environment's observation becomes the vector of slot 0; as `flatten_observation` does it."""
    match space:
        case BoxSpec(dtype="uint8"):
            return InputPlan(InputCode.BYTES, space.size, [], [])
        case BoxSpec():
            return InputPlan(InputCode.REALS, space.size, [], [])
        case DiscreteSpec():
            return InputPlan(InputCode.CHOICES, space.count, [space.count], [space.start])
        case MultiDiscreteSpec():
            firsts = list(space.starts or (0,) * len(space.counts))
            return InputPlan(InputCode.CHOICES, sum(space.counts), list(space.counts), firsts)
        case _:
            raise Unfit("observations with named parts")


def plan_head(space: SpaceSpec) -> tuple[HeadCode, list[int]]:
    match space:
        case DiscreteSpec():
            return HeadCode.CHOICES, [space.count]
        case MultiDiscreteSpec():
            return HeadCode.CHOICES, list(space.counts)
        case BoxSpec():
            return HeadCode.NORMAL, [1] * space.size
        case _:
            raise Unfit("this kind of actions")
