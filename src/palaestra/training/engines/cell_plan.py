"""Memory as the native engine takes it: a layer that writes the gates of all steps, and a cell that walks them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from palaestra.policies.memory.fused import FusedCell, GruCell, LstmCell
from palaestra.policies.memory.mingru import MinGruCell

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.policies.memory.cell import Cell


class CellCode(IntEnum):
    """As native/engine/plan.hpp numbers them."""

    MINGRU = 0
    LSTM = 1
    GRU = 2


@dataclass(frozen=True)
class CellPlan:
    code: CellCode
    size: int
    weight: Tensor  # [gates * size, inputs]: the input's share of the gates
    bias: Tensor  # [gates * size]
    across: tuple[Tensor, Tensor] | None  # [gates * size, size] and [gates * size]: the hidden state's share


def plan_cell(cell: Cell) -> CellPlan | None:
    """None for a kind of memory that the engine does not know."""
    if type(cell) is MinGruCell:
        return CellPlan(CellCode.MINGRU, cell.size, cell.weight, cell.bias, None)
    if type(cell) is LstmCell:
        return _fused(CellCode.LSTM, cell)
    if type(cell) is GruCell:
        return _fused(CellCode.GRU, cell)
    return None


def _fused(code: CellCode, cell: FusedCell) -> CellPlan:
    return CellPlan(code, cell.size, cell.weight_ih_l0, cell.bias_ih_l0, (cell.weight_hh_l0, cell.bias_hh_l0))
