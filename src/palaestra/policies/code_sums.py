"""Sums of table rows chosen by bytes: out[n] = sum over cells c with codes[n, c] > 0 of table[c, codes[n, c] - 1].

On a CPU by a loop of our own where it was built, else by torch, which takes seven times as long to learn through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

native_ops: ModuleType | None
try:
    from palaestra.policies import native_ops
except ImportError:  # no compiler has been here
    native_ops = None

if TYPE_CHECKING:
    from types import ModuleType

SHARED_FROM = 512  # rows; below, waking a thread takes longer than the sums


def code_sums(codes: Tensor, table: Tensor) -> Tensor:
    """uint8 [N, cells], [cells, codes, size] -> [N, size]"""
    if (
        native_ops is None
        or table.device.type != "cpu"
        or table.dtype != torch.float32
        or torch.compiler.is_exporting()
    ):
        return by_torch(codes, table)
    sums: Tensor = _CodeSums.apply(codes, table)  # type: ignore[no-untyped-call]
    return sums


def by_torch(codes: Tensor, table: Tensor) -> Tensor:
    cells, count, size = table.shape
    nothing = cells * count  # one row behind the table; bags leave it out
    first = torch.arange(-1, nothing - 1, count, device=codes.device)
    rows = torch.where(codes > 0, codes.long() + first, nothing)
    padded = torch.cat([table.view(-1, size), table.new_zeros(1, size)])
    return embedding_bag(rows, padded, mode="sum", padding_idx=nothing)


class _CodeSums(Function):
    @staticmethod
    def forward(ctx: Any, codes: Tensor, table: Tensor) -> Tensor:
        codes = codes.contiguous()
        ctx.save_for_backward(codes)
        ctx.table_shape = table.shape
        out = torch.empty(codes.shape[0], table.shape[2])
        _ops().code_sums(codes.numpy(), table.detach().numpy(), out.numpy(), _threads(codes))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (codes,) = ctx.saved_tensors
        out = torch.zeros(ctx.table_shape)
        _ops().code_sums_backward(codes.numpy(), grad.contiguous().numpy(), out.numpy(), _threads(codes))
        return None, out


def _ops() -> ModuleType:
    assert native_ops is not None, "code_sums asks before it comes here"
    return native_ops


def _threads(codes: Tensor) -> int:
    return torch.get_num_threads() if codes.shape[0] >= SHARED_FROM else 1
