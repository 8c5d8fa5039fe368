"""Images as floats [channels, height, width], wherever the environment puts the channels."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from palaestra.core.spaces import BoxSpec, FeatureSpec, SpaceSpec
from palaestra.policies.features import channel_scales, is_tokens

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
        image = rows.unsqueeze(1) if self.axes == 2 else rows
        if self.is_last:
            image = image.permute(0, 3, 1, 2)
        return image.float() * self.factor  # float first: bytes cannot hold a fraction


def _channels_are_last(shape: tuple[int, ...], wanted: ChannelsAre) -> bool:
    if wanted != "auto":
        return wanted == "last"
    return shape[2] <= 4 and shape[2] < min(shape[:2])
