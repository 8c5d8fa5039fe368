"""Results of episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload


@dataclass(frozen=True)
class EpisodeResult:
    seed: int | None  # None in training, where environments continue their own generators
    total_reward: float
    length: int
    terminated: bool  # False: cut by a time limit
    env_index: int = 0
    env_step: int = 0  # steps of the whole run when the episode ended
    extras: dict[str, float] = field(default_factory=dict)  # scalar `info` entries of the last step
    capped: bool = False  # an evaluation stopped it at evaluation.max_steps; the environment had not ended it


@dataclass(frozen=True, eq=False)
class EpisodeColumns(Sequence[EpisodeResult]):
    """Episodes that ended at the same time, without seeds and extras; an `EpisodeResult` is created on access."""

    env_indices: Sequence[int]
    total_rewards: Sequence[float]
    lengths: Sequence[int]
    terminated: Sequence[bool]
    env_step: int = 0

    def numbered(self, first_env: int, env_step: int) -> EpisodeColumns:
        """As others know them: environments counted from `first_env`, ended at `env_step` of the whole run."""
        indices = [first_env + index for index in self.env_indices] if first_env else self.env_indices
        return EpisodeColumns(indices, self.total_rewards, self.lengths, self.terminated, env_step)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> EpisodeResult: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[EpisodeResult, ...]: ...

    def __getitem__(self, index: int | slice) -> EpisodeResult | tuple[EpisodeResult, ...]:
        if isinstance(index, slice):
            return tuple(self[index] for index in range(*index.indices(len(self))))
        return EpisodeResult(
            seed=None,
            total_reward=self.total_rewards[index],
            length=self.lengths[index],
            terminated=self.terminated[index],
            env_index=self.env_indices[index],
            env_step=self.env_step,
        )

    def __eq__(self, other: object) -> bool:
        """To whatever has the same episodes."""
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))


def to_columns(episodes: Sequence[EpisodeResult]) -> EpisodeColumns | None:
    """None where an episode has something that columns have no place for. Its step is left to `numbered`."""
    if isinstance(episodes, EpisodeColumns):
        return episodes
    if any(one.extras or one.seed is not None for one in episodes):
        return None
    return EpisodeColumns(
        [one.env_index for one in episodes],
        [one.total_reward for one in episodes],
        [one.length for one in episodes],
        [one.terminated for one in episodes],
    )


def episode_returns(episodes: Sequence[EpisodeResult]) -> Sequence[float]:
    if isinstance(episodes, EpisodeColumns):
        return episodes.total_rewards
    return [episode.total_reward for episode in episodes]


def episode_lengths(episodes: Sequence[EpisodeResult]) -> Sequence[int]:
    if isinstance(episodes, EpisodeColumns):
        return episodes.lengths
    return [episode.length for episode in episodes]
