"""An episode as everybody counts it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EpisodeResult:
    seed: int | None  # None in training, where an env goes on from its own generator
    total_reward: float
    length: int
    terminated: bool  # False: cut by a time limit
    env_index: int = 0
    env_step: int = 0  # steps of the whole run when the episode ended
    extras: dict[str, float] = field(default_factory=dict)  # scalar `info` entries of the last step
    capped: bool = False  # an evaluation stopped it at evaluation.max_steps; the environment had not ended it
