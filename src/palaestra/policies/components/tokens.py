"""Token observations: bytes [tokens, 3] = (packed coordinate y << 4 | x, feature id, value); coordinate 255 is empty.

All tokens are read, wherever the empty ones stand. Bytes become int64 before they index and float32 before they are
divided: in uint8, 200 + 100 is 44.
"""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import embedding

from palaestra.config.base import Frozen
from palaestra.policies.components.base import Component, Misfit, Signal
from palaestra.policies.features import ID_COUNT, NOTHING, TOKEN_PARTS, channel_scales, is_tokens

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface

SIDE = 16  # coordinates are four bits each


class TokensSettings(Frozen):
    frequencies: int = Field(4, ge=1, le=8, description="Fourier frequencies per axis of the coordinate")
    size: int = Field(16, ge=1, description="numbers that each feature id is described by")


class Tokens(Component):
    """Each token as a vector: Fourier coordinates, an embedding of its feature, its normalised value. Empty: zeros."""

    Settings = TokensSettings
    places: Tensor
    factors: Tensor

    def __init__(self, inputs: tuple[Signal, ...], settings: TokensSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        count = _token_count(inputs[0])
        places = fourier_table(settings.frequencies)
        self.register_buffer("places", places, persistent=False)
        self.register_buffer("factors", 1 / channel_scales(inputs[0].features, ID_COUNT), persistent=False)
        self.table = nn.Embedding(ID_COUNT, settings.size)
        self.emit(count, places.shape[1] + settings.size + 1)

    def forward(self, rows: Tensor) -> Tensor:
        """uint8 [rows, tokens, 3] -> [rows, tokens, size]"""
        coordinate, ids, values = rows.long().unbind(-1)
        normal = values.to(self.factors.dtype) * self.factors[ids]
        parts = [embedding(coordinate, self.places), self.table(ids), normal.unsqueeze(-1)]
        return torch.cat(parts, dim=-1) * (coordinate != NOTHING).unsqueeze(-1)


class TokensPresent(Component):
    """1 for each token that is there, 0 for each empty one: the second source of an attention."""

    def __init__(self, inputs: tuple[Signal, ...], settings: Frozen, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        self.emit(_token_count(inputs[0]))

    def forward(self, rows: Tensor) -> Tensor:
        return (rows[..., 0] != NOTHING).float()


class TokenGridSettings(Frozen):
    height: int = Field(11, ge=1, le=SIDE, description="rows of the grid; tokens beyond are left out")
    width: int = Field(11, ge=1, le=SIDE, description="columns of the grid; tokens beyond are left out")
    channels: int | None = Field(
        None, ge=1, le=ID_COUNT, description="feature ids 0 to this; default: up to the largest id that has a name"
    )


class TokenGrid(Component):
    """Tokens as a picture [channels, height, width] for convolutions, one channel per feature; equal tokens add up."""

    Settings = TokenGridSettings
    factors: Tensor

    def __init__(self, inputs: tuple[Signal, ...], settings: TokenGridSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        _token_count(inputs[0])
        features = inputs[0].features
        named = max((feature.id for feature in features), default=-1) + 1
        self.channels = settings.channels or named or ID_COUNT
        self.height, self.width = settings.height, settings.width
        self.register_buffer("factors", 1 / channel_scales(features, ID_COUNT), persistent=False)
        self.emit(self.channels, self.height, self.width)

    def forward(self, rows: Tensor) -> Tensor:
        """uint8 [rows, tokens, 3]"""
        coordinate, ids, values = rows.long().unbind(-1)
        y, x = coordinate >> 4, coordinate & 15
        is_inside = (coordinate != NOTHING) & (y < self.height) & (x < self.width) & (ids < self.channels)
        # What is left out goes to cell 0 as a zero: adding it changes nothing, whatever stands there.
        cell = ((ids * self.height + y) * self.width + x) * is_inside
        normal = values.to(self.factors.dtype) * self.factors[ids] * is_inside
        size = self.channels * self.height * self.width
        grid = torch.zeros(rows.shape[0], size, dtype=normal.dtype, device=rows.device)
        return grid.scatter_add(1, cell, normal).view(-1, self.channels, self.height, self.width)


def fourier_table(frequencies: int) -> Tensor:
    """[256, 4 * frequencies]: sine and cosine of both halves of every packed coordinate, at doubling frequencies."""
    packed = torch.arange(ID_COUNT)
    axes = torch.stack([packed >> 4, packed & 15], dim=1).float() / (SIDE - 1) * 2 - 1  # [256, 2] in -1 to 1
    angles = (axes.unsqueeze(-1) * (pi * 2.0 ** torch.arange(frequencies) / 2)).flatten(1)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _token_count(signal: Signal) -> int:
    if not is_tokens(signal.space):
        raise Misfit(
            f"needs tokens, bytes [tokens, {TOKEN_PARTS}] of (coordinate, feature id, value), not {signal}; "
            "for pictures choose policy=fast, for vectors policy=mlp"
        )
    return signal.shape[0]
