"""Where a graph ends: a distribution over actions, and a value."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear

from palaestra.config.base import Frozen
from palaestra.core.spaces import BoxSpec
from palaestra.policies.components.base import Component, Misfit, Signal, one_vector
from palaestra.policies.distributions import Distribution, head_size, make_distribution
from palaestra.policies.layers import ACTOR_GAIN, CRITIC_GAIN, orthogonal

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface


class Head(Component):
    """Gives the numbers [rows, …] that `distribution` makes a distribution of."""

    def distribution(self, numbers: Tensor) -> Distribution:
        """`numbers` [T, B, …]"""
        raise NotImplementedError


class ActionHeadSettings(Frozen):
    gain: float = Field(ACTOR_GAIN, gt=0, description="of the orthogonal weights at the start; small: near uniform")
    log_std: float = Field(0.0, description="continuous actions: log standard deviation at the start")
    state_dependent_std: bool = Field(
        default=False, description="continuous actions: let the network give the log standard deviation too"
    )
    squash: bool = Field(
        default=False, description="continuous actions: tanh, scaled to the space's bounds, instead of clipping to them"
    )


class ActionHead(Head):
    """One layer to whatever the action space needs: discrete, multi-discrete or continuous."""

    Settings = ActionHeadSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: ActionHeadSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        self.space = interface.action_space
        self.settings = settings
        is_continuous = isinstance(self.space, BoxSpec)
        _refuse_idle_settings(settings, is_continuous=is_continuous)
        if settings.squash and isinstance(self.space, BoxSpec):
            _refuse_unbounded(self.space)
        size = head_size(self.space)
        self.is_wide = is_continuous and settings.state_dependent_std
        self.layer = orthogonal(nn.Linear(one_vector(inputs), 2 * size if self.is_wide else size), settings.gain)
        if self.is_wide:
            nn.init.constant_(self.layer.bias[size:], settings.log_std)
        has_log_std = is_continuous and not self.is_wide
        self.log_std = nn.Parameter(torch.full((size,), settings.log_std)) if has_log_std else None
        self._weights = (self.layer.weight, self.layer.bias)
        self.emit(2 * size if self.is_wide else size)

    def forward(self, rows: Tensor) -> Tensor:
        return linear(rows, *self._weights)

    def distribution(self, numbers: Tensor) -> Distribution:
        log_std: Tensor | None = self.log_std
        if self.is_wide:
            numbers, log_std = numbers.chunk(2, dim=-1)
        return make_distribution(self.space, numbers, log_std, squash=self.settings.squash)


def _refuse_idle_settings(settings: ActionHeadSettings, *, is_continuous: bool) -> None:
    """A setting that would be accepted and never read is a trap."""
    idle = [name for name in ("state_dependent_std", "squash") if getattr(settings, name)]
    if idle and not is_continuous:
        raise Misfit(f"{idle[0]}=true is for continuous actions; this environment has discrete ones")


def _refuse_unbounded(space: BoxSpec) -> None:
    if not all(isfinite(bound) for bound in (*space.low, *space.high)):
        raise Misfit("squash=true needs actions with finite bounds; some of this environment's have none")


class EmbeddingHeadSettings(Frozen):
    size: int = Field(16, ge=1, description="numbers that each action is described by")
    gain: float = Field(ACTOR_GAIN, gt=0, description="of the orthogonal weights at the start; small: near uniform")


class EmbeddingHead(Head):
    """A learned vector for each action and a bilinear form that scores it: x W e(action) + b(action)."""

    Settings = EmbeddingHeadSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: EmbeddingHeadSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        self.space = interface.action_space
        if isinstance(self.space, BoxSpec):
            raise Misfit("describes discrete actions, but this environment's are continuous; use an action_head")
        count = head_size(self.space)
        form = torch.empty(settings.size, one_vector(inputs))
        self.form = nn.Parameter(nn.init.orthogonal_(form, settings.gain))
        self.embeddings = nn.Parameter(torch.randn(count, settings.size) / sqrt(settings.size))
        self.bias = nn.Parameter(torch.zeros(count))
        self.emit(count)

    def forward(self, rows: Tensor) -> Tensor:
        return linear(linear(rows, self.form), self.embeddings, self.bias)

    def distribution(self, numbers: Tensor) -> Distribution:
        return make_distribution(self.space, numbers, None)


class ValueHeadSettings(Frozen):
    gain: float = Field(CRITIC_GAIN, gt=0, description="of the orthogonal weights at the start")


class ValueHead(Component):
    """One layer to one number: what is still to be earned from here."""

    Settings = ValueHeadSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: ValueHeadSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        self.layer = orthogonal(nn.Linear(one_vector(inputs), 1), settings.gain)
        self._weights = (self.layer.weight, self.layer.bias)
        self.emit(1)

    def forward(self, rows: Tensor) -> Tensor:
        return linear(rows, *self._weights)
