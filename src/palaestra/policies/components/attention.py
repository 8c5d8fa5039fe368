"""Attention of learned queries over tokens: however many tokens there are, a fixed number of vectors comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from palaestra.config.base import Frozen
from palaestra.policies.components.base import Component, Misfit, Signal, refuse_raw
from palaestra.policies.layers import orthogonal

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface


class AttentionSettings(Frozen):
    queries: int = Field(8, ge=1, description="learned vectors that look at the tokens")
    size: int = Field(64, ge=1, description="numbers of each vector that comes out")
    heads: int = Field(4, ge=1, description="parts of a vector that look apart from each other; divides size")


class Attention(Component):
    """Learned queries over tokens [tokens, numbers] -> [queries, size]; a second source [tokens] says which exist."""

    Settings = AttentionSettings
    input_count = (1, 2)

    def __init__(self, inputs: tuple[Signal, ...], settings: AttentionSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        tokens = inputs[0]
        refuse_raw(tokens)
        if len(tokens.shape) != 2:
            raise Misfit(f"needs tokens [tokens, numbers], not {tokens}")
        if len(inputs) == 2 and inputs[1].shape != tokens.shape[:1]:
            raise Misfit(
                f"its second source says which tokens are there, so it must be [{tokens.shape[0]}]: {inputs[1]}"
            )
        if settings.size % settings.heads:
            raise Misfit(f"size={settings.size} cannot be shared by heads={settings.heads}")
        self.heads = settings.heads
        self.queries = nn.Parameter(torch.randn(settings.queries, settings.size))
        self.read = orthogonal(nn.Linear(tokens.shape[1], 2 * settings.size), gain=1.0)  # keys and values
        self.write = orthogonal(nn.Linear(settings.size, settings.size))
        self.emit(settings.queries, settings.size)

    def forward(self, tokens: Tensor, present: Tensor | None = None) -> Tensor:
        keys, values = self.read(tokens).chunk(2, dim=-1)  # [rows, tokens, size]
        queries = self.queries.expand(tokens.shape[0], -1, -1)
        mask = None if present is None else _mask(present)
        heard = scaled_dot_product_attention(self._split(queries), self._split(keys), self._split(values), mask)
        written: Tensor = self.write(heard.transpose(1, 2).flatten(2))
        return torch.relu(written)

    def _split(self, rows: Tensor) -> Tensor:
        """[rows, many, size] -> [rows, heads, many, size / heads]"""
        return rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)


def _mask(present: Tensor) -> Tensor:
    """[rows, 1, 1, tokens], added to the scores. Finite: where no token is there at all, all weigh the same."""
    return ((present - 1) * 1e9)[:, None, None]
