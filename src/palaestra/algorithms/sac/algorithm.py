"""What SAC keeps between iterations, whichever engine computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.algorithms.off_policy import CRITIC_ENTRIES, OffPolicy
from palaestra.algorithms.sac.loss import target_entropy_of
from palaestra.algorithms.schedules import value_at
from palaestra.core.spaces import BoxSpec

if TYPE_CHECKING:
    from palaestra.algorithms.base import Progress

# Streams of random numbers (see `counter_rng`). Their index is the number of the update; of the actor's several updates
# in a row each has the next number.
EXPLORATION = "exploration"  # index: rows; [B, size] normal, or [B] uniform for discrete actions
ACTOR_NOISE = "noise"  # [N, size] normal: actions of the actor's update
TARGET_NOISE = "target_noise"  # [N, size] normal: next actions of the critics' targets


class Sac(OffPolicy):
    name = "sac"
    replicated = frozenset({*CRITIC_ENTRIES, "optimizer", "temperature"})

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.sac = self.config.sac
        space = self.envs.interface.action_space
        self.is_continuous = isinstance(space, BoxSpec)
        self.target_entropy = target_entropy_of(space, self.sac.target_entropy)

    @property
    def learns_temperature(self) -> bool:
        return self.sac.temperature is None

    def actor_updates_due(self) -> int:
        """After the critics' update `update_count`: as many as the critics had since the actor's last."""
        interval = self.sac.policy_interval
        return interval if (self.update_count + 1) % interval == 0 else 0

    def learning_rates(self, now: Progress) -> tuple[float, float]:
        """Of actor and temperature, and of the critics."""
        actor, critic = self.sac.learning_rate, self.sac.critic_learning_rate
        return value_at(actor, now.fraction), value_at(critic or actor, now.fraction)
