"""A linear layer; also one that reads few numbers of many rows.

The slopes of such a layer's weights are a product [outputs, rows] x [rows, inputs] with a thin result. Libraries take
five times as long for it as for the same product turned; autograd makes that one where the weights lie turned.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

THIN = 16  # inputs
MANY = 1024  # rows from which it is worth the two small steps more


def linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if weight.shape[1] >= THIN or rows.dim() != 2 or rows.shape[0] < MANY or not torch.is_grad_enabled():
        return functional.linear(rows, weight, bias)
    return torch.addmm(bias, rows, weight.t().contiguous())
