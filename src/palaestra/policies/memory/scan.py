"""h[t] = keep[t] * h[t-1] + add[t], for all steps, with its gradient written out.

The gradient of such a recurrence is the same recurrence backwards in time, so nothing but h itself is kept for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def scan(keep: Tensor, add: Tensor, first: Tensor) -> Tensor:
    """`keep`, `add` [T, …], `first` […]: what h was before the first step -> h [T, …]."""
    states: Tensor = _Scan.apply(keep, add, first)  # type: ignore[no-untyped-call]
    return states


class _Scan(Function):
    @staticmethod
    def forward(ctx: Any, keep: Tensor, add: Tensor, first: Tensor) -> Tensor:
        states = _recur(keep, add, first)
        ctx.save_for_backward(keep, states, first)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep, states, first = ctx.saved_tensors
        # What h[t] does later, it does through keep[t + 1]; after the last step there is nothing.
        later = torch.cat([keep[1:], torch.zeros_like(keep[:1])]).flip(0)
        add_slope = _recur(later, slope.flip(0), torch.zeros_like(first)).flip(0)
        before = torch.cat([first.unsqueeze(0), states[:-1]])
        return add_slope * before, add_slope, add_slope[0] * keep[0]


def _recur(keep: Tensor, add: Tensor, first: Tensor) -> Tensor:
    return step_by_step(keep, add, first) if keep.device.type == "cpu" else by_doubling(keep, add, first)


def step_by_step(keep: Tensor, add: Tensor, first: Tensor) -> Tensor:
    """T small operations: least work, which is what counts on a CPU."""
    states = torch.empty_like(add)
    state = first
    for weight, extra, out in zip(keep.unbind(), add.unbind(), states.unbind(), strict=True):
        state = torch.addcmul(extra, weight, state, out=out)
    return states


def by_doubling(keep: Tensor, add: Tensor, first: Tensor) -> Tensor:
    """log2(T) large operations: after round k, each step knows the 2^k steps before it."""
    states = torch.cat([torch.addcmul(add[:1], keep[:1], first.unsqueeze(0)), add[1:]])
    reach = 1
    while reach < keep.shape[0]:
        states = torch.cat([states[:reach], torch.addcmul(states[reach:], keep[reach:], states[:-reach])])
        keep = torch.cat([keep[:reach], keep[reach:] * keep[:-reach]])
        reach *= 2
    return states
