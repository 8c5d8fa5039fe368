"""The description of a network that the compiled engine takes. Nothing here needs torch.

Slot 0 is the observation as one vector. Every layer reads one slot and adds to another: separate networks, a shared
trunk with two heads, sums, or anything between. All layers and tables with the same target are one sum with one
activation. Parameters are described by their offsets in the optimizer's flat array. The compiled engine reads these
classes by the names of their fields, and validates them once (native/engine/plan_reader.cpp and network.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Unsupported(Exception):
    """The native engine does not support something. The text names it, to be read after "native cannot take it:"."""


class Activation(IntEnum):
    """The values are those of native/engine/kernels.hpp, as for all enums here."""

    NONE = 0
    TANH = 1
    RELU = 2
    GELU = 3


class HeadKind(IntEnum):
    CATEGORICAL = 0
    GAUSSIAN = 1


class InputKind(IntEnum):
    FLOATS = 0
    BYTES = 1  # divided by 255
    CATEGORICAL = 2  # one-hot encoded


class CellKind(IntEnum):
    MINGRU = 0
    LSTM = 1
    GRU = 2


@dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """A linear layer from one slot to another. Without weights it adds its source as it is: a residual connection."""

    source: int
    target: int
    inputs: int
    outputs: int
    weight_offset: int | None  # [outputs, inputs]
    weight_row_stride: int  # inputs, or more for a block of columns
    bias_offset: int | None  # [outputs]
    activation: Activation  # of the target


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """An embedding table: each cell of a part of the observation, a byte, selects a row; the rows are summed."""

    part: str  # of the observation
    target: int
    cells: int
    rows_per_cell: int
    size: int
    clips_codes: bool  # larger codes select the last row; otherwise they are an error
    weight_offset: int  # [cells, rows_per_cell, size]
    bias_offset: int | None  # [size]
    activation: Activation  # of the target


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """A recurrent cell, after the layers that write its gates. minGRU has no recurrent weights."""

    kind: CellKind
    gates: int  # slot
    target: int  # slot of the hidden state after each step
    size: int
    recurrent_weight_offset: int | None  # [gates * size, size]
    recurrent_bias_offset: int | None  # [gates * size]


@dataclass(frozen=True, kw_only=True)
class NormPlan:
    """Layer normalization of everything that is added to a target, before its activation."""

    target: int
    size: int
    weight_offset: int  # [size]
    bias_offset: int  # [size]
    epsilon: float


@dataclass
class NetworkPlan:
    slot_sizes: list[int]
    layers: list[LayerPlan] = field(default_factory=list)
    tables: list[TablePlan] = field(default_factory=list)
    cells: list[CellPlan] = field(default_factory=list)
    norms: list[NormPlan] = field(default_factory=list)
    action_slot: int | None = None  # outputs; None: a network without it
    value_slot: int | None = None
    log_std_offset: int | None = None  # for continuous actions
    memory_names: list[str] = field(default_factory=list)  # of the cells' states, cell by cell
    input_part: str | None = ""  # the part of the observation in slot 0; None: no part, slot 0 has size 0


@dataclass(frozen=True)
class HeadPlan:
    kind: HeadKind
    counts: list[int]  # number of classes of each part of an action; Gaussian: 1 per entry


@dataclass(frozen=True)
class InputPlan:
    """How a part of the observation becomes the vector of slot 0."""

    kind: InputKind
    size: int  # of the vector
    counts: list[int]  # categorical: number of classes of each part
    starts: list[int]  # categorical: first class of each part


@dataclass(frozen=True)
class NormalizerPlan:
    """Normalized observations are (observation - shift) * scale, clipped to +-limit."""

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    limit: float


def part_of(space: SpaceSpec, name: str) -> SpaceSpec:
    """The space of a part, by its name in the rollout buffer: "" is all of an observation without named parts."""
    return dict(space.parts)[name] if isinstance(space, DictSpec) else space


def plan_input(space: SpaceSpec) -> InputPlan:
    """The conversion of `flatten_observation`."""
    match space:
        case BoxSpec(dtype="uint8"):
            return InputPlan(InputKind.BYTES, space.size, [], [])
        case BoxSpec():
            return InputPlan(InputKind.FLOATS, space.size, [], [])
        case DiscreteSpec():
            return InputPlan(InputKind.CATEGORICAL, space.count, [space.count], [space.start])
        case MultiDiscreteSpec():
            starts = list(space.starts or (0,) * len(space.counts))
            return InputPlan(InputKind.CATEGORICAL, sum(space.counts), list(space.counts), starts)
        case _:
            raise Unsupported("observations with named parts")


def plan_vector_input(plan: NetworkPlan, space: SpaceSpec) -> InputPlan:
    """The input of slot 0 for a whole observation space."""
    if plan.input_part is None:
        return InputPlan(InputKind.BYTES, 0, [], [])
    return plan_input(part_of(space, plan.input_part))


def plan_head(space: SpaceSpec) -> HeadPlan:
    match space:
        case DiscreteSpec():
            return HeadPlan(HeadKind.CATEGORICAL, [space.count])
        case MultiDiscreteSpec():
            return HeadPlan(HeadKind.CATEGORICAL, list(space.counts))
        case BoxSpec():
            return HeadPlan(HeadKind.GAUSSIAN, [1] * space.size)
        case _:
            raise Unsupported("this kind of actions")
