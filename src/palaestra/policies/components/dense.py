"""Matrices: one layer, a tower of them, and a tower with a way around each pair."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from palaestra.config.base import Frozen
from palaestra.policies.activations import ACTIVATIONS, ActivationName
from palaestra.policies.components.base import Component, Misfit, Signal, one_vector, refuse_raw
from palaestra.policies.layers import HIDDEN_GAIN, linear, orthogonal

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface


class LinearSettings(Frozen):
    size: int = Field(ge=1, description="numbers that come out")
    activation: ActivationName = Field("none", description="applied to what comes out")
    gain: float = Field(HIDDEN_GAIN, gt=0, description="of the orthogonal weights at the start")


class Linear(Component):
    """One layer, applied to the last axis: [64] becomes [size], [tokens, 64] becomes [tokens, size]."""

    Settings = LinearSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: LinearSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        refuse_raw(inputs[0])
        if not inputs[0].shape:
            raise Misfit(f"needs a vector, not the single number of {inputs[0]}")
        self.layer = orthogonal(nn.Linear(inputs[0].shape[-1], settings.size), settings.gain)
        self.activation = ACTIVATIONS[settings.activation]
        self._weights = (self.layer.weight, self.layer.bias)
        self.emit(*inputs[0].shape[:-1], settings.size)

    def forward(self, rows: Tensor) -> Tensor:
        return self.activation(linear(rows, *self._weights))


class MlpSettings(Frozen):
    hidden: tuple[PositiveInt, ...] = Field((64, 64), description="widths of the layers, first to last")
    activation: ActivationName = Field("tanh", description="after every layer")
    layer_norm: bool = Field(default=False, description="normalise what a layer gives, before its activation")
    gain: float = Field(HIDDEN_GAIN, gt=0, description="of the orthogonal weights at the start")
    residual: bool = Field(
        default=False, description="every layer but the first adds its input to what it gives; needs equal widths"
    )


class Mlp(Component):
    """A tower of layers with an activation after each: x becomes activation(norm(W x + b)), plus x where residual."""

    Settings = MlpSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: MlpSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        widths = (one_vector(inputs), *settings.hidden)
        layers = [orthogonal(nn.Linear(before, after), settings.gain) for before, after in pairwise(widths)]
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in settings.hidden) if settings.layer_norm else None
        self.residual = settings.residual
        if self.residual and len(set(settings.hidden)) > 1:
            raise Misfit(f"residual=true needs layers of one width, not hidden={list(settings.hidden)}")
        self.activation = ACTIVATIONS[settings.activation]
        # Looking a parameter up through its module costs a fifth of a small layer; these are the same objects.
        self._weights = [(layer.weight, layer.bias) for layer in layers]
        self.emit(widths[-1])

    def forward(self, rows: Tensor) -> Tensor:
        activation = self.activation
        if self.norms is not None or self.residual:
            return self._forward_with_options(rows)
        for weight, bias in self._weights:
            rows = activation(linear(rows, weight, bias))
        return rows

    def _forward_with_options(self, rows: Tensor) -> Tensor:
        for index, (weight, bias) in enumerate(self._weights):
            outputs = linear(rows, weight, bias)
            if self.norms is not None:
                outputs = self.norms[index](outputs)
            outputs = self.activation(outputs)
            rows = rows + outputs if self.residual and index > 0 else outputs
        return rows


class ResidualSettings(Frozen):
    blocks: int = Field(2, ge=1, description="how many blocks, one after another")
    expansion: float = Field(1.0, gt=0, description="width inside a block, as a multiple of the width outside")
    activation: ActivationName = Field("relu", description="inside each block")


class Residual(Component):
    """Residual MLP: each block adds to its input what two layers make of it, after normalising it."""

    Settings = ResidualSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: ResidualSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        width = one_vector(inputs)
        inside = max(1, round(width * settings.expansion))
        self.activation = ACTIVATIONS[settings.activation]
        self.blocks = nn.ModuleList(ResidualBlock(width, inside) for _ in range(settings.blocks))
        self.emit(width)

    def forward(self, rows: Tensor) -> Tensor:
        for block in self.blocks:
            rows = rows + block(rows, self.activation)
        return rows


class ResidualBlock(nn.Module):
    def __init__(self, width: int, inside: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = orthogonal(nn.Linear(width, inside))
        self.narrow = orthogonal(nn.Linear(inside, width), gain=1.0)

    def forward(self, rows: Tensor, activation: object) -> Tensor:
        assert callable(activation)
        normal = layer_norm(rows, self.norm.normalized_shape, self.norm.weight, self.norm.bias)
        narrowed: Tensor = self.narrow(activation(self.widen(normal)))
        return narrowed
