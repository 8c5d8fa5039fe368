"""What the compiled engine is told of torch's modules: where their parameters lie, and what reads and writes what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from palaestra.policies.activations import unchanged
from palaestra.policies.tanh import tanh
from palaestra.training.engines.codes import NO_BIAS, ActivationCode, LayerPlan, Unfit

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.policies.components.codes import Codes
    from palaestra.training.engines.cell_plan import CellPlan

CODES: dict[Callable[[Tensor], Tensor], ActivationCode] = {
    unchanged: ActivationCode.NONE,
    tanh: ActivationCode.TANH,
    torch.relu: ActivationCode.RELU,
    functional.gelu: ActivationCode.GELU,
}

Slots = tuple[int, ...]  # side by side, as one vector


@dataclass(frozen=True)
class Target:
    """A slot that one layer or several add to, and what is done with the sum."""

    slot: int
    activation: Callable[[Tensor], Tensor] = unchanged

    @property
    def code(self) -> int:
        code = CODES.get(self.activation)
        if code is None:
            raise Unfit(f"the activation {getattr(self.activation, '__name__', self.activation)}")
        return int(code)


@dataclass(kw_only=True)
class NetworkPlan(LayerPlan):
    """Made of torch's modules, whose parameters are views of the optimiser's block."""

    flat: Tensor  # all parameters, one behind the other
    covered: int = 0  # numbers of `flat` that something uses

    def new_slot(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def add(self, sources: Slots, weight: Tensor, bias: Tensor, activation: Callable[[Tensor], Tensor]) -> int:
        """The slot that a layer writes."""
        slot = self.new_slot(weight.shape[0])
        self.add_to(Target(slot, activation), sources, weight, bias)
        return slot

    def add_to(self, target: Target, sources: Slots, weight: Tensor, bias: Tensor) -> None:
        """A layer for each source: each has a block of columns of the weights, the first one the bias."""
        outputs, columns = weight.shape
        assert columns == sum(self.sizes[source] for source in sources), "asked for by the policy's own components"
        place, bias_place = self.place(weight), self.place(bias)
        for source in sources:
            inputs = self.sizes[source]
            self.layers.append((source, target.slot, inputs, outputs, place, columns, bias_place, target.code))
            place, bias_place = place + inputs, NO_BIAS
        self.covered += weight.numel() + bias.numel()

    def add_codes(self, target: Target, codes: Codes, part: str) -> None:
        """`part` of the observation chooses rows of a table."""
        cells, most, size = codes.table.shape
        places = self.place(codes.table), self.place(codes.bias)
        self.tables.append((target.slot, cells, most, codes.must_clip, size, *places, target.code))
        self.table_parts.append(part)
        self.covered += codes.table.numel() + codes.bias.numel()

    def add_cell(self, sources: Slots, cell: CellPlan, names: tuple[str, ...]) -> int:
        """The slot that a cell writes: what it remembers after each step."""
        gates = self.add(sources, cell.weight, cell.bias, unchanged)
        target = self.new_slot(cell.size)
        weight, bias = (0, 0) if cell.across is None else map(self.place, cell.across)
        self.cells.append((int(cell.code), gates, target, cell.size, weight, bias))
        self.memory.extend(names)
        self.covered += 0 if cell.across is None else sum(part.numel() for part in cell.across)
        return target

    def place(self, parameter: Tensor) -> int:
        bytes_before = parameter.data_ptr() - self.flat.data_ptr()
        assert 0 <= bytes_before <= self.flat.nbytes - parameter.nbytes, "every parameter is a view of the flat block"
        return bytes_before // self.flat.element_size()
