"""Sequences with resets inside, cut at the resets and packed for torch's fused kernels.

B rows of T steps become one sequence per stretch between resets. Sorted by length and laid side by side, step by step,
one call of the kernel runs them all, however many resets there are and wherever they fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """How [T * B] rows are laid out as S stretches, longest first."""

    order: Tensor  # [T * B]: which row stands at each place of the packed data
    places: Tensor  # [T * B]: where each row stands; the inverse of `order`
    batch_sizes: Tensor  # [longest], on the CPU: how many stretches are still going at each step
    owners: Tensor  # [S]: the batch row that each stretch belongs to
    goes_on: Tensor  # [S] bool: begins at the first step without a reset, so with the memory given
    last: Tensor  # [B]: the stretch that each batch row ends with


def pack(starts: Tensor) -> Packing:
    """`starts` [T, B] bool: memory from before must not reach these steps."""
    time_count, batch_count = starts.shape
    device = starts.device
    begins = starts.t().clone()  # [B, T]: batch row by batch row, so that a stretch is a run of neighbours
    begins[:, 0] = True
    first = begins.flatten().nonzero().squeeze(1)  # [S]
    ends = torch.cat([first[1:], first.new_tensor([time_count * batch_count])])
    lengths, by_length = (ends - first).sort(descending=True, stable=True)
    first = first[by_length]
    owners = first // time_count
    longest = int(lengths[0])
    inside = torch.arange(longest, device=device).unsqueeze(1)  # [longest, 1]
    is_there = inside < lengths  # [longest, S]
    neighbours = (first + inside)[is_there]  # step by step; counted batch row by batch row
    order = neighbours % time_count * batch_count + neighbours // time_count
    places = torch.empty_like(order)
    places[order] = torch.arange(order.shape[0], device=device)
    goes_on = (first % time_count == 0) & ~starts[0, owners]
    last = torch.empty(batch_count, dtype=torch.int64, device=device)
    is_last = (first + lengths) % time_count == 0
    last[owners[is_last]] = is_last.nonzero().squeeze(1)
    return Packing(order, places, is_there.sum(dim=1).cpu(), owners, goes_on, last)
