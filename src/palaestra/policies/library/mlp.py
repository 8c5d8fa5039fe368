"""The default network of small tasks: two towers of layers, the actor and the critic."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import gelu

from palaestra.config.base import Frozen
from palaestra.core.spaces import BoxSpec, EnvInterface
from palaestra.policies.activations import tanh
from palaestra.policies.base import Intent, Memory, Observation, Policy, PolicyOutput
from palaestra.policies.distributions import Distribution, head_size, make_distribution
from palaestra.policies.layers import linear
from palaestra.policies.observations import flat_size, flatten_observation

if TYPE_CHECKING:
    from collections.abc import Callable

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": tanh, "relu": torch.relu, "gelu": gelu}


class MlpSettings(Frozen):
    hidden: tuple[int, ...] = Field((64, 64), description="widths of the hidden layers of each tower")
    activation: Literal["tanh", "relu", "gelu"] = Field("tanh", description="after every hidden layer")
    log_std: float = Field(0.0, description="initial log standard deviation of continuous actions")


class MlpPolicy(Policy):
    Settings = MlpSettings

    def __init__(self, interface: EnvInterface, settings: MlpSettings) -> None:
        super().__init__()
        self.action_space = interface.action_space
        self.observation_space = interface.observation_space
        inputs = flat_size(interface.observation_space)
        size = head_size(interface.action_space)
        # The last layer of the actor starts small, so that the first policy is near uniform.
        self.actor = Tower(inputs, settings.hidden, size, settings.activation, last_gain=0.01)
        self.critic = Tower(inputs, settings.hidden, 1, settings.activation, last_gain=1.0)
        is_continuous = isinstance(interface.action_space, BoxSpec)
        self.log_std = nn.Parameter(torch.full((size,), settings.log_std)) if is_continuous else None

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:  # noqa: ARG002
        flat = flatten_observation(self.observation_space, observation)  # [T, B, inputs]
        rows = flat.flatten(0, 1)  # a plain matrix is what the layers are fastest with
        return PolicyOutput(self._distribution(flat, rows), self.critic(rows).view(flat.shape[:2]), memory)

    def act(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> Intent:  # noqa: ARG002
        flat = flatten_observation(self.observation_space, observation)
        return Intent(self._distribution(flat, flat.flatten(0, 1)), memory, None)

    def _distribution(self, flat: Tensor, rows: Tensor) -> Distribution:
        head = self.actor(rows).view(flat.shape[0], flat.shape[1], -1)
        return make_distribution(self.action_space, head, self.log_std)


class Tower(nn.Module):
    """Linear layers with an activation between them, on [rows, inputs].

    The layers are applied as functions: for networks this small, calling twelve modules takes longer than their work.
    """

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, activation: str, last_gain: float) -> None:
        super().__init__()
        widths = (inputs, *hidden)
        layers = [_linear(before, after, math.sqrt(2)) for before, after in pairwise(widths)]
        layers.append(_linear(widths[-1], outputs, last_gain))
        self.layers = nn.ModuleList(layers)
        self.activation = ACTIVATIONS[activation]
        # Looking a parameter up through its module costs a fifth of a small layer; these are the same objects.
        *self._hidden, self._last = [(layer.weight, layer.bias) for layer in layers]

    def forward(self, rows: Tensor) -> Tensor:
        activation = self.activation
        for weight, bias in self._hidden:
            rows = activation(linear(rows, weight, bias))
        return linear(rows, *self._last)


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
