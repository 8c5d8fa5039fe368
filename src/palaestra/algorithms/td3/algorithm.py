"""What TD3 keeps between iterations, whichever engine computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.algorithms.off_policy import CRITIC_ENTRIES, OffPolicy
from palaestra.algorithms.schedules import value_at

if TYPE_CHECKING:
    from palaestra.algorithms.base import Progress

# Streams of random numbers (see `counter_rng`).
EXPLORATION = "exploration"  # index: rows; [B, size] normal
TARGET_NOISE = "target_noise"  # index: updates; [N, size] normal


class Td3(OffPolicy):
    name = "td3"
    replicated = frozenset({*CRITIC_ENTRIES, "optimizer", "target"})

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.td3 = self.config.td3

    def is_actor_due(self) -> bool:
        """After the critics' update `update_count`: with the actor go all targets."""
        return (self.update_count + 1) % self.td3.policy_interval == 0

    def learning_rate(self, now: Progress) -> float:
        return value_at(self.td3.learning_rate, now.fraction)
