"""From what an environment gives to what a network reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from palaestra.core.lazy_import import lazy_import
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, FeatureSpec, MultiDiscreteSpec, SpaceSpec
from palaestra.policies.features import channel_scales, is_tokens

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import functional

    from palaestra.policies.base import Observation
else:
    torch = lazy_import("torch")
    functional = lazy_import("torch.nn.functional")


def to_tensor(space: SpaceSpec, observation: Any) -> Observation:
    """One environment's observation as a batch [T=1, B=1, …] in the dtype that the network stores."""
    if isinstance(space, DictSpec):
        parts = {name: to_tensor(part, observation[name]) for name, part in space.parts}
        return {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}
    return torch.from_numpy(np.array(observation, dtype=storage_dtype(space), order="C"))[None, None]


def storage_dtype(space: SpaceSpec) -> np.dtype[Any]:
    """How observations of a space are kept in rollouts: bytes stay bytes, choices int64, the rest float32."""
    if isinstance(space, BoxSpec):
        return np.dtype(np.uint8) if space.dtype == "uint8" else np.dtype(np.float32)
    return np.dtype(np.int64)


def flat_size(space: SpaceSpec) -> int:
    """Length of the vector that `flatten_observation` makes of an observation."""
    match space:
        case BoxSpec():
            return space.size
        case DiscreteSpec():
            return space.count
        case MultiDiscreteSpec():
            return sum(space.counts)
        case DictSpec():
            return sum(flat_size(part) for _, part in space.parts)


def flatten_observation(space: SpaceSpec, observation: Any) -> Tensor:
    """Any observation [T, B, …] as one float vector [T, B, flat_size]; choices become one-hot, bytes 0 to 1."""
    match space:
        case BoxSpec():
            rows = observation.shape[:2]  # a box of shape () has one number
            flat: Tensor = observation if len(space.shape) == 1 else observation.reshape(*rows, space.size)
            return flat.float() / 255 if space.dtype == "uint8" else flat
        case DiscreteSpec():
            return functional.one_hot(observation - space.start, space.count).float()
        case MultiDiscreteSpec():
            starts = space.starts or (0,) * len(space.counts)
            hot = [
                functional.one_hot(observation[..., index] - start, count)
                for index, (count, start) in enumerate(zip(space.counts, starts, strict=True))
            ]
            return torch.cat(hot, dim=-1).float()
        case DictSpec():
            return torch.cat([flatten_observation(part, observation[name]) for name, part in space.parts], dim=-1)


ChannelsAre = Literal["auto", "first", "last"]


def is_image(space: SpaceSpec | None) -> bool:
    """Tokens [tokens, 3] have two axes too, but nothing in them is beside anything else."""
    return isinstance(space, BoxSpec) and len(space.shape) in (2, 3) and not is_tokens(space)


class ImageReader(nn.Module):
    """[rows, height, width, channels], [rows, channels, height, width] or [rows, height, width], bytes or floats."""

    factor: Tensor

    def __init__(
        self,
        space: BoxSpec,
        features: tuple[FeatureSpec, ...] = (),
        channels: ChannelsAre = "auto",
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.axes = len(space.shape)  # 2: one channel, not written as an axis
        self.is_last = self.axes == 3 and _channels_are_last(space.shape, channels)
        shape = (1, *space.shape) if self.axes == 2 else space.shape
        self.shape = (shape[2], shape[0], shape[1]) if self.is_last else shape  # [channels, height, width]
        if scale is not None:
            scales = torch.tensor([scale])
        elif features and self.axes == 3 and not self.is_last:
            scales = channel_scales(features, self.shape[0])
        else:
            scales = torch.tensor([255.0 if space.dtype == "uint8" else 1.0])
        self.register_buffer("factor", (1 / scales).view(-1, 1, 1), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        picture = rows.unsqueeze(1) if self.axes == 2 else rows
        if self.is_last:
            picture = picture.permute(0, 3, 1, 2)
        return picture.float() * self.factor  # float first: bytes cannot hold a fraction


def _channels_are_last(shape: tuple[int, ...], wanted: ChannelsAre) -> bool:
    if wanted != "auto":
        return wanted == "last"
    return shape[2] <= 4 and shape[2] < min(shape[:2])
