"""LSTM and GRU on torch's own kernels: one call for a whole sequence, resets or not."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from palaestra.policies.memory.cell import Cell, Parts, forget, lasting
from palaestra.policies.memory.lstm_sequence import lstm_sequence
from palaestra.policies.memory.packing import pack


class FusedCell(Cell):
    """Weights are named and laid out as in `nn.LSTM` and `nn.GRU` of one layer, so that they can be exchanged."""

    gates: ClassVar[int]

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__(size)
        rows = self.gates * size
        self.weight_ih_l0 = nn.Parameter(nn.init.orthogonal_(torch.empty(rows, inputs)))
        self.weight_hh_l0 = nn.Parameter(nn.init.orthogonal_(torch.empty(rows, size)))
        self.bias_ih_l0 = nn.Parameter(torch.zeros(rows))
        self.bias_hh_l0 = nn.Parameter(torch.zeros(rows))
        self._weights = (self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0)

    def forward(self, sequence: Tensor, memory: Parts, starts: Tensor | None = None) -> tuple[Tensor, Parts]:
        if starts is None or not bool(starts.any()):
            return self._unbroken(sequence, memory)
        if sequence.shape[0] == 1 or not bool(starts[1:].any()):
            return self._unbroken(sequence, forget(memory, starts[0]))
        return self._broken(sequence, memory, starts)

    def _unbroken(self, sequence: Tensor, memory: Parts) -> tuple[Tensor, Parts]:
        if sequence.shape[0] == 1:
            after = self._one_step(sequence[0], memory)
            return after[0].unsqueeze(0), after
        return self._run(sequence, None, memory)

    def _broken(self, sequence: Tensor, memory: Parts, starts: Tensor) -> tuple[Tensor, Parts]:
        plan = pack(starts)
        begin = tuple(part[plan.owners] * plan.goes_on.unsqueeze(-1) for part in memory)
        packed, after = self._run(sequence.flatten(0, 1)[plan.order], plan.batch_sizes, begin)
        output = packed[plan.places].view(*starts.shape, self.size)
        return output, tuple(part[plan.last] for part in after)

    def _one_step(self, rows: Tensor, memory: Parts) -> Parts:
        raise NotImplementedError

    def _run(self, data: Tensor, batch_sizes: Tensor | None, memory: Parts) -> tuple[Tensor, Parts]:
        """`data` [T, B, inputs], or packed [rows, inputs] with `batch_sizes`."""
        raise NotImplementedError


class LstmCell(FusedCell):
    parts = ("hidden", "cell")
    gates = 4

    @torch.no_grad()
    def start_remembering(self, steps: int) -> None:
        stay = lasting(self.size, steps)
        self.bias_ih_l0[: self.size] = -stay  # the input gate
        self.bias_ih_l0[self.size : 2 * self.size] = stay  # the forget gate

    def _broken(self, sequence: Tensor, memory: Parts, starts: Tensor) -> tuple[Tensor, Parts]:
        if sequence.device.type != "cpu":
            return super()._broken(sequence, memory, starts)
        into, across, bias, more = self._weights
        hidden, cell = memory
        outputs, cell = lstm_sequence(linear(sequence, into, bias + more), across, hidden, cell, starts)
        return outputs, (outputs[-1], cell)

    def _one_step(self, rows: Tensor, memory: Parts) -> Parts:
        return torch.lstm_cell(rows, memory, *self._weights)

    def _run(self, data: Tensor, batch_sizes: Tensor | None, memory: Parts) -> tuple[Tensor, Parts]:
        begin = tuple(part.unsqueeze(0) for part in memory)
        if batch_sizes is None:
            output, hidden, cell = torch.lstm(data, begin, self._weights, True, 1, 0.0, True, False, False)  # noqa: FBT003
        else:
            output, hidden, cell = torch.lstm(data, batch_sizes, begin, self._weights, True, 1, 0.0, True, False)  # noqa: FBT003
        return output, (hidden[0], cell[0])


class GruCell(FusedCell):
    parts = ("hidden",)
    gates = 3

    @torch.no_grad()
    def start_remembering(self, steps: int) -> None:
        self.bias_ih_l0[self.size : 2 * self.size] = lasting(self.size, steps)  # the update gate

    def _one_step(self, rows: Tensor, memory: Parts) -> Parts:
        return (torch.gru_cell(rows, memory[0], *self._weights),)

    def _run(self, data: Tensor, batch_sizes: Tensor | None, memory: Parts) -> tuple[Tensor, Parts]:
        begin = memory[0].unsqueeze(0)
        if batch_sizes is None:
            output, hidden = torch.gru(data, begin, self._weights, True, 1, 0.0, True, False, False)  # noqa: FBT003
        else:
            output, hidden = torch.gru(data, batch_sizes, begin, self._weights, True, 1, 0.0, True, False)  # noqa: FBT003
        return output, (hidden[0],)
