"""minGRU: a gate and a candidate that look at the input only, so that all of a sequence's matrices are one product.

What is left of the recurrence is one multiplication and one addition per number (see `scan`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from palaestra.policies.memory.cell import Cell, Parts, lasting
from palaestra.policies.memory.scan import scan


class MinGruCell(Cell):
    parts = ("hidden",)

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__(size)
        halves = [nn.init.orthogonal_(torch.empty(size, inputs)) for _ in ("gate", "candidate")]
        self.weight = nn.Parameter(torch.cat(halves))
        self.bias = nn.Parameter(torch.zeros(2 * size))
        self._weights = (self.weight, self.bias)

    @torch.no_grad()
    def start_remembering(self, steps: int) -> None:
        self.bias[: self.size] = -lasting(self.size, steps)  # the gate lets little in, so what is there stays

    def forward(self, sequence: Tensor, memory: Parts, starts: Tensor | None = None) -> tuple[Tensor, Parts]:
        gate, candidate = linear(sequence, *self._weights).chunk(2, dim=-1)  # each [T, B, size]
        share = torch.sigmoid(gate)  # of the candidate in the new state
        keep = 1 - share
        if starts is not None:
            keep = keep * (~starts).unsqueeze(-1)
        (before,) = memory
        if sequence.shape[0] == 1:
            states = torch.addcmul(share * candidate, keep, before)
        else:
            states = scan(keep, share * candidate, before)
        return states, (states[-1],)
