"""Builds the plan of a network from torch's modules, whose parameters are views of the optimizer's flat array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.policies.activations import tanh, unchanged
from palaestra.policies.memory.fused import FusedCell, GruCell, LstmCell
from palaestra.policies.memory.mingru import MinGruCell
from palaestra.training.engines.network_plan import (
    Activation,
    CellKind,
    CellPlan,
    LayerPlan,
    NetworkPlan,
    NormPlan,
    TablePlan,
    Unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.policies.components.codes import Codes
    from palaestra.policies.memory.cell import Cell

ACTIVATIONS: dict[Callable[[Tensor], Tensor], Activation] = {
    unchanged: Activation.NONE,
    tanh: Activation.TANH,
    torch.relu: Activation.RELU,
    functional.gelu: Activation.GELU,
}

Slots = tuple[int, ...]  # whose concatenation is one vector


@dataclass(frozen=True)
class Target:
    """A slot that one layer or several add to, and the activation of the sum."""

    slot: int
    function: Callable[[Tensor], Tensor] = unchanged

    @property
    def activation(self) -> Activation:
        activation = ACTIVATIONS.get(self.function)
        if activation is None:
            raise Unsupported(f"the activation {getattr(self.function, '__name__', self.function)}")
        return activation


@dataclass(frozen=True)
class CellParameters:
    """A recurrent cell of torch as the engine takes it: a layer that writes the gates, and what steps through time."""

    kind: CellKind
    size: int
    weight: Tensor  # [gates * size, inputs]: from the input to the gates
    bias: Tensor  # [gates * size]
    recurrent: tuple[Tensor, Tensor] | None  # [gates * size, size], [gates * size]: from the hidden state to the gates


def cell_parameters(cell: Cell) -> CellParameters | None:
    """None for a kind of cell that the engine does not support."""
    if type(cell) is MinGruCell:
        return CellParameters(CellKind.MINGRU, cell.size, cell.weight, cell.bias, None)
    if type(cell) is LstmCell:
        return _fused_parameters(CellKind.LSTM, cell)
    if type(cell) is GruCell:
        return _fused_parameters(CellKind.GRU, cell)
    return None


def _fused_parameters(kind: CellKind, cell: FusedCell) -> CellParameters:
    recurrent = (cell.weight_hh_l0, cell.bias_hh_l0)
    return CellParameters(kind, cell.size, cell.weight_ih_l0, cell.bias_ih_l0, recurrent)


class PlanBuilder:
    def __init__(self, input_size: int, flat: Tensor, input_part: str | None = "") -> None:
        """`flat`: all parameters."""
        self.plan = NetworkPlan(slot_sizes=[input_size], input_part=input_part)
        self.flat = flat
        self.used_parameters = 0  # numbers of `flat` that the plan uses

    def new_slot(self, size: int) -> int:
        self.plan.slot_sizes.append(size)
        return len(self.plan.slot_sizes) - 1

    def add_layer(
        self,
        sources: Slots,
        layer: nn.Linear,
        activation: Callable[[Tensor], Tensor] = unchanged,
        norm: nn.LayerNorm | None = None,
    ) -> int:
        """Add a linear layer with a slot of its own, and return the slot. A norm stands before the activation."""
        slot = self.new_slot(layer.out_features)
        self.add_to(Target(slot, activation), sources, layer.weight, layer.bias)
        if norm is not None:
            self.add_norm(slot, norm)
        return slot

    def add_sum(self, *sources: int) -> int:
        """Add a slot that is the sum of others, and return it."""
        slot = self.new_slot(self.plan.slot_sizes[sources[0]])
        for source in sources:
            self.add_identity(Target(slot), source)
        return slot

    def add_identity(self, target: Target, source: int) -> None:
        """Add a slot to the target as it is."""
        size = self.plan.slot_sizes[source]
        assert size == self.plan.slot_sizes[target.slot], "the policy's components check their shapes"
        layer = LayerPlan(
            source=source,
            target=target.slot,
            inputs=size,
            outputs=size,
            weight_offset=None,
            weight_row_stride=0,
            bias_offset=None,
            activation=target.activation,
        )
        self.plan.layers.append(layer)

    def add_norm(self, target: int, norm: nn.LayerNorm) -> None:
        """Normalise all that is added to a slot, before its activation."""
        size = self.plan.slot_sizes[target]
        assert norm.normalized_shape == (size,), "the policy's components check their shapes"
        plan = NormPlan(
            target=target,
            size=size,
            weight_offset=self.offset_of(norm.weight),
            bias_offset=self.offset_of(norm.bias),
            epsilon=norm.eps,
        )
        self.plan.norms.append(plan)
        self.used_parameters += 2 * size

    def add_to(self, target: Target, sources: Slots, weight: Tensor, bias: Tensor) -> None:
        """Add a layer for each source: each has a block of columns of the weights, the first one the bias."""
        outputs, columns = weight.shape
        sizes = [self.plan.slot_sizes[source] for source in sources]
        assert columns == sum(sizes), "the policy's components check their shapes"
        weight_offset, bias_offset = self.offset_of(weight), self.offset_of(bias)
        for number, (source, inputs) in enumerate(zip(sources, sizes, strict=True)):
            layer = LayerPlan(
                source=source,
                target=target.slot,
                inputs=inputs,
                outputs=outputs,
                weight_offset=weight_offset,
                weight_row_stride=columns,
                bias_offset=bias_offset if number == 0 else None,
                activation=target.activation,
            )
            self.plan.layers.append(layer)
            weight_offset += inputs
        self.used_parameters += weight.numel() + bias.numel()

    def add_table(self, target: Target, codes: Codes, part: str) -> None:
        """Add an embedding table whose rows are selected by `part` of the observation."""
        cells, rows_per_cell, size = codes.table.shape
        table = TablePlan(
            part=part,
            target=target.slot,
            cells=cells,
            rows_per_cell=rows_per_cell,
            size=size,
            clips_codes=codes.must_clip,
            weight_offset=self.offset_of(codes.table),
            bias_offset=self.offset_of(codes.bias),
            activation=target.activation,
        )
        self.plan.tables.append(table)
        self.used_parameters += codes.table.numel() + codes.bias.numel()

    def add_cell(self, sources: Slots, cell: CellParameters, names: tuple[str, ...]) -> int:
        """Add a recurrent cell and the layer of its gates, and return the slot of its hidden state."""
        gates = self.new_slot(cell.weight.shape[0])
        self.add_to(Target(gates), sources, cell.weight, cell.bias)
        target = self.new_slot(cell.size)
        weight, bias = (None, None) if cell.recurrent is None else map(self.offset_of, cell.recurrent)
        plan = CellPlan(
            kind=cell.kind,
            gates=gates,
            target=target,
            size=cell.size,
            recurrent_weight_offset=weight,
            recurrent_bias_offset=bias,
        )
        self.plan.cells.append(plan)
        self.plan.memory_names.extend(names)
        self.used_parameters += 0 if cell.recurrent is None else sum(part.numel() for part in cell.recurrent)
        return target

    def offset_of(self, parameter: Tensor) -> int:
        """The parameter's offset in `flat`, in numbers."""
        byte_offset = parameter.data_ptr() - self.flat.data_ptr()
        assert 0 <= byte_offset <= self.flat.nbytes - parameter.nbytes, "every parameter is a view of the flat array"
        return byte_offset // self.flat.element_size()
