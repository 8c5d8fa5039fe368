"""Memory as nodes: LSTM, GRU, and the cheap minGRU."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from palaestra.config.base import Frozen
from palaestra.policies.components.base import MemoryComponent, Signal, Steps, one_vector
from palaestra.policies.memory.fused import GruCell, LstmCell
from palaestra.policies.memory.mingru import MinGruCell

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.memory.cell import Cell


class RecurrentSettings(Frozen):
    size: int = Field(128, ge=1, description="numbers that are remembered, and that come out")
    remember: int | None = Field(
        None, ge=2, description="start with memories that last up to this many steps; default: about two"
    )


class Recurrent(MemoryComponent):
    Settings = RecurrentSettings
    cell_class: ClassVar[type[LstmCell | GruCell | MinGruCell]]

    def __init__(self, inputs: tuple[Signal, ...], settings: RecurrentSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        self.cell: Cell = self.cell_class(one_vector(inputs), settings.size)
        if settings.remember is not None:
            self.cell.start_remembering(settings.remember)
        self.memory_shapes = dict.fromkeys(self.cell.parts, (settings.size,))
        self.names: tuple[str, ...] = self.cell.parts
        self.emit(settings.size)

    def name_memory(self, node: str) -> None:
        self.names = tuple(f"{node}.{part}" for part in self.cell.parts)
        self.memory_shapes = dict.fromkeys(self.names, (self.cell.size,))

    def forward(self, rows: Tensor, steps: Steps) -> Tensor:
        sequence = rows.view(steps.time_count, steps.batch_count, -1)
        before = tuple([steps.memory[name] for name in self.names])
        output, after = self.cell(sequence, before, steps.starts)
        steps.next_memory.update(zip(self.names, after, strict=True))
        return output.flatten(0, 1)


class Lstm(Recurrent):
    """Long short-term memory, on torch's fused kernels."""

    cell_class = LstmCell


class Gru(Recurrent):
    """Gated recurrent unit, on torch's fused kernels."""

    cell_class = GruCell


class MinGru(Recurrent):
    """A GRU whose gate looks at the input only: one matrix product for a whole sequence. The cheapest memory."""

    cell_class = MinGruCell
