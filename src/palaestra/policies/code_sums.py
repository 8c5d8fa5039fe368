"""Sums of table rows chosen by bytes: out[n] = sum over cells c with codes[n, c] > 0 of table[c, codes[n, c] - 1]."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


def code_sums(codes: Tensor, table: Tensor) -> Tensor:
    """uint8 [N, cells], [cells, codes, size] -> [N, size]"""
    cells, count, size = table.shape
    nothing = cells * count  # one row behind the table; bags leave it out
    first = torch.arange(-1, nothing - 1, count, device=codes.device)
    rows = torch.where(codes > 0, codes.long() + first, nothing)
    padded = torch.cat([table.view(-1, size), table.new_zeros(1, size)])
    return embedding_bag(rows, padded, mode="sum", padding_idx=nothing)
