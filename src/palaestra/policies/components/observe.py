"""From what the environment gives to floats: as one vector, as a picture, or as an embedding of choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from palaestra.config.base import Frozen
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec
from palaestra.policies.components.base import Component, Misfit, Signal
from palaestra.policies.images import ChannelsAre, ImageReader, is_image
from palaestra.policies.observations import flat_size, flatten_observation

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface


class Vector(Component):
    """The observation, or a part of it, as one vector: choices one-hot, bytes from 0 to 1, parts side by side."""

    def __init__(self, inputs: tuple[Signal, ...], settings: Frozen, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        self.space = _raw(inputs[0], "a vector")
        # Real numbers in a row are what they are; the most frequent case of all should cost nothing.
        self.is_plain = isinstance(self.space, BoxSpec) and len(self.space.shape) == 1 and inputs[0].is_real
        self.emit(flat_size(self.space))

    def forward(self, rows: Any) -> Tensor:
        """`rows` [rows, …], or a dictionary of such"""
        if self.is_plain:
            plain: Tensor = rows
            return plain
        # flatten_observation wants time in front
        timed = {name: part[None] for name, part in rows.items()} if isinstance(rows, dict) else rows[None]
        return flatten_observation(self.space, timed)[0]


class ImageSettings(Frozen):
    channels: ChannelsAre = Field(
        "auto", description="where the channels are; auto: last when that axis is the shortest and at most 4"
    )
    scale: float | None = Field(
        None, gt=0, description="divide by this; default: named features by their own, bytes by 255, floats by 1"
    )


class Image(Component):
    """A picture [channels, height, width] or [height, width, channels] as floats [channels, height, width]."""

    Settings = ImageSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: ImageSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        space = _raw(inputs[0], "an image")
        if not isinstance(space, BoxSpec) or not is_image(space):
            raise Misfit(
                f"needs a picture [channels, height, width] or [height, width, channels], not {inputs[0]}; "
                "for vectors choose policy=mlp"
            )
        self.reader = ImageReader(space, inputs[0].features, settings.channels, settings.scale)
        self.emit(*self.reader.shape)

    def forward(self, rows: Tensor) -> Tensor:
        return self.reader.forward(rows)


class EmbeddingSettings(Frozen):
    size: int = Field(16, ge=1, description="numbers that each choice becomes")


class Embedding(Component):
    """A learned vector for each choice of a discrete observation; several choices side by side."""

    Settings = EmbeddingSettings
    offsets: Tensor

    def __init__(self, inputs: tuple[Signal, ...], settings: EmbeddingSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        counts, starts = _choices(inputs[0])
        self.table = nn.Embedding(sum(counts), settings.size)
        before = [sum(counts[:index]) - start for index, start in enumerate(starts)]
        self.register_buffer("offsets", torch.tensor(before), persistent=False)
        self.emit(len(counts) * settings.size)

    def forward(self, rows: Tensor) -> Tensor:
        """`rows` int64 [rows] or [rows, choices], counted from each choice's own start"""
        which = (rows.unsqueeze(1) if rows.dim() == 1 else rows) + self.offsets
        found: Tensor = self.table(which)
        return found.flatten(1)


def _choices(signal: Signal) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Counts and starts of each choice."""
    match signal.space:
        case DiscreteSpec(count=count, start=start):
            return (count,), (start,)
        case MultiDiscreteSpec(counts=counts, starts=starts):
            return counts, starts or (0,) * len(counts)
        case _:
            raise Misfit(f"needs a discrete observation or part of one, not {signal}")


def _raw(signal: Signal, what: str) -> SpaceSpec:
    if signal.space is None:
        raise Misfit(f"makes {what} of the observation or a part of it; {signal} is neither")
    if isinstance(signal.space, DictSpec) and what != "a vector":
        names = [f"{signal.name}.{name}" for name, _ in signal.space.parts]
        raise Misfit(f"needs one part of {signal}: {', '.join(names)}")
    return signal.space
