"""Convolutions over pictures [channels, height, width]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import conv2d

from palaestra.config.base import Frozen
from palaestra.policies.activations import ACTIVATIONS, ActivationName
from palaestra.policies.components.base import Component, Misfit, Signal, refuse_raw
from palaestra.policies.layers import orthogonal

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface

LayerShape = tuple[int, int, int]  # channels, kernel, stride
LARGE: tuple[LayerShape, ...] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # Mnih et al. 2015, for pictures from 36 pixels on
SMALL: tuple[LayerShape, ...] = ((32, 3, 1), (64, 3, 1))
TINY: tuple[LayerShape, ...] = ((32, 2, 1),)
LARGE_FROM, SMALL_FROM = 36, 5


class ConvSettings(Frozen):
    channels: int = Field(ge=1, description="channels that come out")
    kernel: int = Field(3, ge=1, description="side of the square that is looked at")
    stride: int = Field(1, ge=1, description="how far the square moves")
    padding: int = Field(0, ge=0, description="rows of zeros around the picture")
    activation: ActivationName = Field("relu", description="applied to what comes out")


class Conv(Component):
    """One convolution."""

    Settings = ConvSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: ConvSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        channels, *sides = _image(inputs[0])
        after = [_side(side, settings.kernel, settings.stride, settings.padding) for side in sides]
        if min(after) < 1:
            padded = " with its padding" if settings.padding else ""
            raise Misfit(f"its kernel of {settings.kernel} does not fit into {inputs[0]}{padded}; set a smaller kernel")
        layer = nn.Conv2d(channels, settings.channels, settings.kernel, settings.stride, settings.padding)
        self.layer = orthogonal(layer)
        self.activation = ACTIVATIONS[settings.activation]
        self._arguments = (self.layer.weight, self.layer.bias, settings.stride, settings.padding)
        self.emit(settings.channels, *after)

    def forward(self, rows: Tensor) -> Tensor:
        return self.activation(conv2d(rows, *self._arguments))


class ConvTowerSettings(Frozen):
    layers: tuple[tuple[PositiveInt, PositiveInt, PositiveInt], ...] | None = Field(
        None, min_length=1, description="[channels, kernel, stride] of each; default: by the picture's smaller side"
    )
    activation: ActivationName = Field("relu", description="after every layer")


class ConvTower(Component):
    """Several convolutions; by default those of the Atari papers for pictures from 36 pixels on, smaller ones below."""

    Settings = ConvTowerSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: ConvTowerSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        channels, *sides = _image(inputs[0])
        shapes = settings.layers or layers_for(min(sides))
        layers = []
        for number, (count, kernel, stride) in enumerate(shapes, start=1):
            if min(sides) < kernel:
                raise Misfit(
                    f"layer {number} has a kernel of {kernel}, but its picture is only {sides[0]} x {sides[1]} "
                    f"(from {inputs[0]}); set layers"
                )
            layers.append(orthogonal(nn.Conv2d(channels, count, kernel, stride)))
            channels, sides = count, [_side(side, kernel, stride, 0) for side in sides]
        self.layers = nn.ModuleList(layers)
        self.activation = ACTIVATIONS[settings.activation]
        self._arguments = [(layer.weight, layer.bias, layer.stride) for layer in layers]
        self.emit(channels, *sides)

    def forward(self, rows: Tensor) -> Tensor:
        for weight, bias, stride in self._arguments:
            rows = self.activation(conv2d(rows, weight, bias, stride))
        return rows


def layers_for(side: int) -> tuple[LayerShape, ...]:
    """What fits a picture whose smaller side is this many pixels."""
    if side >= LARGE_FROM:
        return LARGE
    return SMALL if side >= SMALL_FROM else TINY


def _image(signal: Signal) -> tuple[int, ...]:
    refuse_raw(signal)
    if len(signal.shape) != 3:
        raise Misfit(f"needs a picture [channels, height, width], not {signal}")
    return signal.shape


def _side(side: int, kernel: int, stride: int, padding: int) -> int:
    return (side + 2 * padding - kernel) // stride + 1
