"""Bytes that are names, not amounts: what stands in each cell of a grid, or small counts."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor, nn

from palaestra.config.base import Frozen
from palaestra.core.spaces import BoxSpec
from palaestra.policies.code_sums import code_sums
from palaestra.policies.components.base import Component, Misfit, Signal

if TYPE_CHECKING:
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
