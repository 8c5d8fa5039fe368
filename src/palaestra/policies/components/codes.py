"""Bytes that are names, not amounts: what stands in each cell of a grid, or small counts."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

from palaestra.config.base import Frozen
from palaestra.core.spaces import BoxSpec
from palaestra.policies.components.base import Component, Misfit, Signal

if TYPE_CHECKING:
    from types import ModuleType

    from palaestra.core.spaces import EnvInterface


class CodesSettings(Frozen):
    size: int = Field(128, ge=1, description="numbers that come out")
    most: int | None = Field(
        None, ge=1, le=255, description="larger codes count as this one; default: the space's own largest"
    )


class Codes(Component):
    """A learned vector for each code in each cell, summed over the cells; code 0 is nothing and adds nothing.

    The same as a linear layer on one-hot cells, without most of its multiplications.
    """

    Settings = CodesSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: CodesSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        space = inputs[0].space
        if not (isinstance(space, BoxSpec) and space.dtype == "uint8" and space.shape):
            raise Misfit(f"needs bytes that are codes, not {inputs[0]}; for amounts put a vector node")
        largest = int(max(space.high))
        self.most = largest if settings.most is None else min(settings.most, largest)
        self.must_clip = self.most < largest
        cells = prod(space.shape)
        # As many cells are something as nothing, say: then what comes out has about unit variance.
        self.table = nn.Parameter(torch.randn(cells, self.most, settings.size) * sqrt(2 / cells))
        self.bias = nn.Parameter(torch.zeros(settings.size))
        self.emit(settings.size)

    def forward(self, rows: Tensor) -> Tensor:
        """uint8 [rows, …] -> [rows, size]"""
        codes = rows.flatten(1)
        if self.must_clip:
            codes = codes.clamp(max=self.most)
        return code_sums(codes, self.table) + self.bias


native_ops: ModuleType | None
try:
    from palaestra.policies import native_ops
except ImportError:  # no compiler has been here
    native_ops = None


SHARED_FROM = 512  # rows; below, waking a thread takes longer than the sums


def code_sums(codes: Tensor, table: Tensor) -> Tensor:
    """uint8 [N, cells], [cells, codes, size] -> [N, size]: table[c, codes[n, c] - 1] summed over cells with a code.

    On a CPU by a loop of our own where it is compiled, else by torch, whose backward takes seven times as long.
    """
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
