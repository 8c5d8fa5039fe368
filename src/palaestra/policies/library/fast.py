"""The graph `fast` written by hand: one convolution and an LSTM. A test holds the two equal, weight by weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor, nn

from palaestra.config.base import Frozen
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, EnvInterface
from palaestra.policies.base import Memory, Observation, Policy, PolicyOutput
from palaestra.policies.distributions import head_size, make_distribution
from palaestra.policies.images import ImageReader, is_image
from palaestra.policies.layers import ACTOR_GAIN, CRITIC_GAIN, orthogonal
from palaestra.policies.memory.fused import LstmCell

if TYPE_CHECKING:
    from palaestra.core.spaces import SpaceSpec

HIDDEN, CELL = "memory.hidden", "memory.cell"


class FastSettings(Frozen):
    """The same as the graph's own."""

    channels: int = Field(32, ge=1, description="channels of the convolution")
    kernel: int = Field(3, ge=1, description="side of the square that the convolution looks at")
    size: int = Field(128, ge=1, description="units of the hidden layer and of the LSTM")


class FastPolicy(Policy):
    Settings = FastSettings

    def __init__(self, interface: EnvInterface, settings: FastSettings) -> None:
        super().__init__()
        space = _image_space(interface.observation_space)
        self.action_space = interface.action_space
        self.size = settings.size
        self.read = ImageReader(space, interface.features)
        channels, height, width = self.read.shape
        if min(height, width) < settings.kernel:
            raise UsageError(
                f"policy.settings.kernel={settings.kernel} does not fit into pictures of {height} x {width}.",
                f"Set it to at most {min(height, width)}.",
            )
        after = (height - settings.kernel + 1) * (width - settings.kernel + 1)
        self.conv1 = orthogonal(nn.Conv2d(channels, settings.channels, settings.kernel))
        self.hidden = orthogonal(nn.Linear(settings.channels * after, settings.size))
        self.memory = LstmCell(settings.size, settings.size)
        self.action = orthogonal(nn.Linear(settings.size, head_size(self.action_space)), ACTOR_GAIN)
        is_continuous = isinstance(self.action_space, BoxSpec)
        self.log_std = nn.Parameter(torch.zeros(head_size(self.action_space))) if is_continuous else None
        self.value = orthogonal(nn.Linear(settings.size, 1), CRITIC_GAIN)

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:
        assert isinstance(observation, Tensor), "the constructor has refused dictionaries"
        time_count, batch_count = observation.shape[:2]
        picture = self.read(observation.flatten(0, 1))  # [T * B, channels, height, width]
        seen = torch.relu(self.conv1(picture)).flatten(1)
        hidden = torch.relu(self.hidden(seen)).view(time_count, batch_count, -1)
        remembered, (last_hidden, last_cell) = self.memory(hidden, (memory[HIDDEN], memory[CELL]), starts)
        distribution = make_distribution(self.action_space, self.action(remembered), self.log_std)
        return PolicyOutput(distribution, self.value(remembered).squeeze(-1), {HIDDEN: last_hidden, CELL: last_cell})

    def initial_memory(self, batch_size: int) -> Memory:
        device = self.value.weight.device
        return {name: torch.zeros(batch_size, self.size, device=device) for name in (HIDDEN, CELL)}


def _image_space(space: SpaceSpec) -> BoxSpec:
    if not (isinstance(space, BoxSpec) and is_image(space)):
        raise UsageError(
            f"FastPolicy needs pictures [channels, height, width] or [height, width, channels], not {space}.",
            "For vectors choose policy=mlp.",
        )
    return space
