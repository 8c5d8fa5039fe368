"""Activations by name, as functions: calling a module for a tanh takes longer than the tanh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ActivationName = Literal["none", "relu", "tanh", "gelu", "silu", "elu", "sigmoid"]


def unchanged(rows: Tensor) -> Tensor:
    return rows


native_ops: ModuleType | None
try:
    from palaestra.policies import native_ops
except ImportError:  # no compiler has been here
    native_ops = None


LARGE = 16_384  # numbers; below, going past autograd's own operations takes longer than is saved
OWN_SHARE = 131_072  # numbers for each thread: less is done before it has started


def tanh(rows: Tensor) -> Tensor:
    """Large tensors on a CPU take a loop of our own, where it is compiled.

    torch hands them to a library of vector functions that is fast on one maker's processors only: on others a tanh
    takes 2.6 ns, nearly twice the layer of 64 before it. Ours takes a tenth of that, within a few roundings of the
    exact value, and is the one that the native engine computes with.
    """
    if rows.numel() < LARGE or not _is_ours(rows):
        return torch.tanh(rows)
    if rows.requires_grad and torch.is_grad_enabled():
        bent: Tensor = _Tanh.apply(rows)  # type: ignore[no-untyped-call]
        return bent
    return _bent(rows)


def _is_ours(rows: Tensor) -> bool:
    is_plain = rows.device.type == "cpu" and rows.dtype == torch.float32 and rows.is_contiguous()
    return is_plain and native_ops is not None and not torch.compiler.is_compiling()


def _bent(rows: Tensor) -> Tensor:
    assert native_ops is not None, "asked before"
    out = torch.empty_like(rows)
    threads = max(1, min(torch.get_num_threads(), rows.numel() // OWN_SHARE))
    native_ops.tanh(rows.detach().view(-1).numpy(), out.view(-1).numpy(), threads)
    return out


class _Tanh(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        out = _bent(rows)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        through: Tensor = torch.ops.aten.tanh_backward(grad, out)
        return through


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": unchanged,
    "relu": torch.relu,
    "tanh": tanh,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "elu": functional.elu,
    "sigmoid": torch.sigmoid,
}
