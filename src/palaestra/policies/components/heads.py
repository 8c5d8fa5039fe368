"""Where a graph ends: a distribution over actions, and a value."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear

from palaestra.config.base import Frozen
from palaestra.core.spaces import BoxSpec
from palaestra.policies.components.base import Component, Misfit, Signal, one_vector
from palaestra.policies.distributions import Distribution, head_size, make_distribution
from palaestra.policies.layers import ACTOR_GAIN, CRITIC_GAIN, orthogonal
from palaestra.policies.role_distributions import role_distribution
from palaestra.policies.roles import is_bounded

if TYPE_CHECKING:
    from palaestra.config.policy import Role
    from palaestra.core.spaces import EnvInterface


class Head(Component):
    """Gives the numbers [rows, …] that `distribution` makes a distribution of.

    Made as `Class(inputs, settings, interface)`, and for other `roles` than actor_critic with the role behind these.
    """

    roles: ClassVar[tuple[Role, ...]] = ("actor_critic",)
    low: Tensor
    high: Tensor

    def __init__(
        self, inputs: tuple[Signal, ...], settings: Any, interface: EnvInterface, role: Role = "actor_critic"
    ) -> None:
        super().__init__(inputs, settings, interface)
        self.space = interface.action_space
        self.role = role
        low, high = ((), ()) if not isinstance(self.space, BoxSpec) else (self.space.low, self.space.high)
        # Derived from the space, so not saved.
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)

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
    dueling: bool = Field(
        default=False, description="action values: a value of the state plus advantages; follows from dqn.dueling"
    )


ALL_ROLES: tuple[Role, ...] = ("actor_critic", "action_values", "stochastic_actor", "deterministic_actor")


class ActionHead(Head):
    """One layer to whatever the action space and the role need: discrete, multi-discrete or continuous."""

    Settings = ActionHeadSettings
    roles = ALL_ROLES

    def __init__(
        self,
        inputs: tuple[Signal, ...],
        settings: ActionHeadSettings,
        interface: EnvInterface,
        role: Role = "actor_critic",
    ) -> None:
        super().__init__(inputs, settings, interface, role)
        self.settings = settings
        is_continuous = isinstance(self.space, BoxSpec)
        _refuse_idle_settings(settings, role, is_continuous=is_continuous)
        if settings.squash and not is_bounded(self.space):
            raise Misfit("squash=true needs actions with finite bounds; some of this environment's have none")
        is_actor_critic = role == "actor_critic"
        width, size = one_vector(inputs), head_size(self.space)
        self.is_wide = is_continuous and (settings.state_dependent_std or role == "stochastic_actor")
        self.layer = orthogonal(nn.Linear(width, 2 * size if self.is_wide else size), settings.gain)
        if self.is_wide and (is_actor_critic or "log_std" in settings.model_fields_set):
            nn.init.constant_(self.layer.bias[size:], settings.log_std)
        has_log_std = is_actor_critic and is_continuous and not self.is_wide
        self.log_std = nn.Parameter(torch.full((size,), settings.log_std)) if has_log_std else None
        self.state_value = orthogonal(nn.Linear(width, 1), settings.gain) if settings.dueling else None
        self._weights = (self.layer.weight, self.layer.bias)
        self.emit(2 * size if self.is_wide else size)

    def forward(self, rows: Tensor) -> Tensor:
        numbers = linear(rows, *self._weights)
        if self.state_value is not None:
            value: Tensor = self.state_value(rows)
            return value + numbers - numbers.mean(dim=-1, keepdim=True)
        return numbers

    def distribution(self, numbers: Tensor) -> Distribution:
        if self.role != "actor_critic":
            return role_distribution(self.role, self.space, numbers, (self.low, self.high))
        log_std: Tensor | None = self.log_std
        if self.is_wide:
            numbers, log_std = numbers.chunk(2, dim=-1)
        return make_distribution(self.space, numbers, log_std, squash=self.settings.squash)


def _refuse_idle_settings(settings: ActionHeadSettings, role: Role, *, is_continuous: bool) -> None:
    """A setting that would be accepted and never read is a trap."""
    idle = [name for name in ("state_dependent_std", "squash") if getattr(settings, name)]
    if idle and not is_continuous:
        raise Misfit(f"{idle[0]}=true is for continuous actions; this environment has discrete ones")
    off = [name for name in ("state_dependent_std", "squash") if name in settings.model_fields_set and name not in idle]
    if off and is_continuous and role == "stochastic_actor":
        raise Misfit(f"{off[0]}=false is for algorithm=ppo; the actor of SAC always has it")
    if settings.state_dependent_std and role == "deterministic_actor":
        raise Misfit("state_dependent_std=true is not read: the actor of TD3 has no standard deviation")
    if settings.dueling and role != "action_values":
        raise Misfit("dueling=true is for algorithm=dqn, which has action values")
    if "log_std" in settings.model_fields_set and role in ("action_values", "deterministic_actor"):
        raise Misfit(f"log_std={settings.log_std} is not read: the role {role} has no standard deviation")


class EmbeddingHeadSettings(Frozen):
    size: int = Field(16, ge=1, description="numbers that each action is described by")
    gain: float = Field(ACTOR_GAIN, gt=0, description="of the orthogonal weights at the start; small: near uniform")


class EmbeddingHead(Head):
    """A learned vector for each action and a bilinear form that scores it: x W e(action) + b(action)."""

    Settings = EmbeddingHeadSettings
    roles = ("actor_critic", "action_values", "stochastic_actor")

    def __init__(
        self,
        inputs: tuple[Signal, ...],
        settings: EmbeddingHeadSettings,
        interface: EnvInterface,
        role: Role = "actor_critic",
    ) -> None:
        super().__init__(inputs, settings, interface, role)
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
        if self.role != "actor_critic":
            return role_distribution(self.role, self.space, numbers, (self.low, self.high))
        return make_distribution(self.space, numbers, None)


class ValueHeadSettings(Frozen):
    gain: float = Field(CRITIC_GAIN, gt=0, description="of the orthogonal weights at the start")


class ValueHead(Component):
    """One layer to one number, the expected return from here; in the critics of discrete SAC to one for each action."""

    Settings = ValueHeadSettings

    # `count` is given only where it is not 1.

    def __init__(
        self, inputs: tuple[Signal, ...], settings: ValueHeadSettings, interface: EnvInterface, count: int = 1
    ) -> None:
        super().__init__(inputs, settings, interface)
        self.layer = orthogonal(nn.Linear(one_vector(inputs), count), settings.gain)
        self._weights = (self.layer.weight, self.layer.bias)
        self.emit(count)

    def forward(self, rows: Tensor) -> Tensor:
        return linear(rows, *self._weights)
