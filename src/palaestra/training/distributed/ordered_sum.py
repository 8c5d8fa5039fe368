"""Sums over all ranks through a network: two rounds of messages, added in the order of ranks.

gloo's own all_reduce and all_gather pass their data around a ring, so their latency grows with the number of ranks, and
the ring adds every part of a tensor in another order. Here every message of a round is under way at the same time, and
the result has the bits of ((rank 0 + rank 1) + rank 2) + ..., as in shared memory (native/engine/collectives.cpp).

Both rounds are gloo's all_to_all, which posts all sends and receives before it waits for the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from torch import Tensor

# What a rank receives at most in one round: above it a second round of latency is cheaper than the additional bytes.
ONE_ROUND_BYTES = 128 << 10


def sum_in_rank_order(values: Tensor, rank: int, world_size: int) -> None:
    """A collective, in place. `values`: flat, contiguous, float32 or float64, on the CPU, as long on every rank."""
    if not values.numel():
        return
    if world_size == 2:
        _add_other(values, rank)
    elif values.nbytes * world_size <= ONE_ROUND_BYTES:
        values.copy_(add_rows(exchange(values, world_size)))
    else:
        _sum_in_chunks(values, rank, world_size)


def exchange(tensor: Tensor, world_size: int) -> Tensor:
    """A collective of one round: [world_size, ...], every rank's tensor in the order of ranks."""
    copies = tensor.detach().expand(world_size, *tensor.shape).contiguous()
    received = torch.empty_like(copies)
    if copies.numel():
        dist.all_to_all_single(received, copies)
    return received


def add_rows(rows: Tensor) -> Tensor:
    """[ranks, n] -> [n], the first row first."""
    array = rows.numpy()
    if array.shape[1] == 1:  # NumPy adds contiguous numbers in pairs, and only whole rows one after another
        return torch.from_numpy(np.add.accumulate(array, axis=0)[-1])
    return torch.from_numpy(np.add.reduce(array, axis=0, initial=-0.0))  # which keeps the sign of every first number


def chunk_sizes(count: int, world_size: int) -> list[int]:
    """How many of `count` numbers each rank adds up; the first ones have one more where they do not divide."""
    smaller, larger_ones = divmod(count, world_size)
    return [smaller + (rank < larger_ones) for rank in range(world_size)]


def _add_other(values: Tensor, rank: int) -> None:
    """Between two ranks one round of whole tensors has no more bytes than two rounds of halves; a + b is b + a."""
    received = torch.empty_like(values)
    sizes = [0 if other == rank else len(values) for other in range(2)]
    dist.all_to_all_single(received, values, sizes, sizes)
    values += received


def _sum_in_chunks(values: Tensor, rank: int, world_size: int) -> None:
    """Each rank adds up one chunk of all ranks' numbers and sends the result to all."""
    sizes = chunk_sizes(len(values), world_size)
    own_sizes = [sizes[rank]] * world_size
    parts = values.new_empty((world_size, sizes[rank]))
    dist.all_to_all_single(parts.view(-1), values, own_sizes, sizes)
    total = add_rows(parts) if sizes[rank] else parts[0]
    dist.all_to_all_single(values, total.repeat(world_size), sizes, own_sizes)
