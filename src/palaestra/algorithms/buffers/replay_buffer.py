"""The steps that DQN, SAC and TD3 learn from: a ring of rows, one row for each step of all environments.

A row holds the observations [B, …] that were acted on, and what followed: actions, rewards, and whether an episode
ended. The next row holds the next observations, so that each observation is stored once; only the last observation of
an episode that a time limit cut is kept apart, because the next row then begins another episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.buffers.finite import refuse_non_finite, refuse_non_finite_ends
from palaestra.algorithms.buffers.rollout_buffer import parts_of, shape_of
from palaestra.algorithms.serialization import as_tensor
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, SpaceSpec
from palaestra.policies.observations import storage_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palaestra.algorithms.counter_rng import CounterRng
    from palaestra.envs.vector.in_process import Arrays, Ending

RUNNING, TERMINATED, TRUNCATED = 0, 1, 2  # what `ends` says of a step
NO_FINAL = -1


@dataclass(frozen=True)
class Batch:
    """Transitions of n steps, or fewer where an episode ended or the newest step was reached. Each field [N, …]."""

    observations: Arrays
    actions: NDArray[Any]
    rewards: NDArray[np.float32]  # discounted sum over the steps
    next_observations: Arrays  # after the last of these steps; of a terminated episode: not to be used
    discounts: NDArray[np.float32]  # of the value of what follows: gamma^steps, or 0 where the episode terminated


class ReplayBuffer:
    def __init__(self, interface: EnvInterface, capacity: int, env_count: int) -> None:
        """`capacity`: transitions over all environments."""
        self.space = interface.observation_space
        self.env_count = env_count
        self.rows = max(2, capacity // env_count) + 1  # one of them holds the observations to act on next
        shape = (self.rows, env_count)
        self.blocks = {
            name: np.zeros((*shape, *shape_of(part)), storage_dtype(part)) for name, part in parts_of(self.space)
        }
        self.actions = np.zeros((*shape, *_action_shape(interface.action_space)), _action_dtype(interface.action_space))
        self.rewards = np.zeros(shape, np.float32)
        self.ends = np.zeros(shape, np.uint8)
        self.position = 0  # the row of the observations to act on next
        self.size = 0  # complete rows before it
        self.total_rows = 0  # complete rows so far, with those that were overwritten
        self._final_slots = np.full(shape, NO_FINAL, np.int32)  # where an observation that was kept apart is
        self._finals = {name: np.zeros((16, *block.shape[2:]), block.dtype) for name, block in self.blocks.items()}
        self._free_slots = list(range(15, -1, -1))

    @property
    def transitions(self) -> int:
        return self.size * self.env_count

    @property
    def current(self) -> Arrays:
        """[B, …] the observations to act on."""
        return self._row(self.position)

    @property
    def following(self) -> Arrays:
        """[B, …] where the environments write their next observations, before `add`."""
        return self._row((self.position + 1) % self.rows)

    def add(
        self, actions: NDArray[Any], rewards: NDArray[np.float32] | Sequence[float], endings: Sequence[Ending]
    ) -> None:
        """Completes the current row; the next observations were written to `following`."""
        row = self.position
        self._release_finals((row + 1) % self.rows)
        self.actions[row] = actions
        self.rewards[row] = rewards
        self.ends[row] = RUNNING
        for ending in endings:
            index = ending.env_index
            self.ends[row, index] = TERMINATED if ending.episode.terminated else TRUNCATED
            if not ending.episode.terminated:
                self._keep_final(row, index, ending.final_observation)
        self.position = (row + 1) % self.rows
        self.size = min(self.size + 1, self.rows - 1)
        self.total_rows += 1

    def draw(self, rng: CounterRng, count: int) -> NDArray[np.int64]:
        """Indices [count] of steps, uniformly: row * B + environment."""
        drawn = rng.below(self.transitions, count)
        first = self.position - self.size
        return (first + drawn // self.env_count) % self.rows * self.env_count + drawn % self.env_count

    def gather(self, indices: NDArray[np.int64], n_step: int, gamma: float) -> Batch:
        """The transitions that begin with these steps."""
        rows, envs = np.divmod(indices, self.env_count)
        rewards = self.rewards[rows, envs].copy()
        discounts = np.full(len(rows), gamma, np.float32)
        last = rows.copy()  # the last step of each window
        is_open = self.ends[rows, envs] == RUNNING
        for _ in range(n_step - 1):
            following = (last + 1) % self.rows
            is_open &= following != self.position
            rewards[is_open] += discounts[is_open] * self.rewards[following, envs][is_open]
            discounts[is_open] *= np.float32(gamma)
            last[is_open] = following[is_open]
            is_open &= self.ends[last, envs] == RUNNING
        discounts[self.ends[last, envs] == TERMINATED] = 0.0
        return Batch(
            observations=self._observations(rows, envs),
            actions=self.actions[rows, envs],
            rewards=rewards,
            next_observations=self._next_observations(last, envs),
            discounts=discounts,
        )

    def newest(self, row_count: int) -> Arrays:
        """[T, B, …] the observations of the newest complete rows: `row_count`, or as many as there are."""
        rows = self._newest_rows(row_count)
        found = {name: block[rows] for name, block in self.blocks.items()}
        return found if isinstance(self.space, DictSpec) else found[""]

    def refuse_non_finite(self, row_count: int) -> None:
        """The newest rows: what the environments gave in this iteration."""
        rows = self._newest_rows(row_count)
        seen = np.append(rows, self.position)
        floats = {name: block[seen] for name, block in self.blocks.items() if block.dtype == np.float32}
        refuse_non_finite(floats, self.rewards[rows], "iteration")

    def cut_episodes(self) -> None:
        """The environments start anew: episodes under way end as if a time limit had cut them."""
        if not self.size:
            return
        row = (self.position - 1) % self.rows
        for env in np.flatnonzero(self.ends[row] == RUNNING).tolist():
            self.ends[row, env] = TRUNCATED
            self._keep_final(row, env, self._of_env(self.position, env))

    def capture_current(self) -> dict[str, Any]:
        """The observations to act on next, copied."""
        return {name: as_tensor(block[self.position].copy()) for name, block in self.blocks.items()}

    def restore_current(self, saved: Mapping[str, Any]) -> None:
        for name, block in self.blocks.items():
            block[self.position] = saved[name].numpy()

    def _newest_rows(self, row_count: int) -> NDArray[np.int64]:
        count = min(row_count, self.size)
        return (self.position - count + np.arange(count)) % self.rows

    def _of_env(self, row: int, env: int) -> Any:
        """One environment's observation, as `Ending.final_observation` has it."""
        found = {name: block[row, env] for name, block in self.blocks.items()}
        return found if isinstance(self.space, DictSpec) else found[""]

    def _observations(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> Arrays:
        found = {name: block[rows, envs] for name, block in self.blocks.items()}
        return found if isinstance(self.space, DictSpec) else found[""]

    def _next_observations(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> Arrays:
        found = {name: block[(rows + 1) % self.rows, envs] for name, block in self.blocks.items()}
        slots = self._final_slots[rows, envs]
        kept_apart = np.flatnonzero(slots != NO_FINAL)
        for name, part in found.items():
            part[kept_apart] = self._finals[name][slots[kept_apart]]
        return found if isinstance(self.space, DictSpec) else found[""]

    def _keep_final(self, row: int, env: int, observation: Any) -> None:
        if not self._free_slots:
            before = next(iter(self._finals.values())).shape[0]
            self._finals = {name: np.concatenate([kept, np.zeros_like(kept)]) for name, kept in self._finals.items()}
            self._free_slots = list(range(2 * before - 1, before - 1, -1))
        slot = self._final_slots[row, env] = self._free_slots.pop()
        for name, kept in self._finals.items():
            kept[slot] = observation[name] if name else observation
            if kept.dtype == np.float32:
                refuse_non_finite_ends(kept[slot : slot + 1], [env])

    def _release_finals(self, row: int) -> None:
        slots = self._final_slots[row]
        self._free_slots.extend(int(slot) for slot in slots[slots != NO_FINAL])
        slots[:] = NO_FINAL

    def _row(self, row: int) -> Arrays:
        if isinstance(self.space, DictSpec):
            return {name: block[row] for name, block in self.blocks.items()}
        only: NDArray[Any] = self.blocks[""][row]
        return only


def _action_shape(space: SpaceSpec) -> tuple[int, ...]:
    if isinstance(space, BoxSpec):
        return (space.size,)
    return () if isinstance(space, DiscreteSpec) else (len(space.counts),)  # type: ignore[union-attr]


def _action_dtype(space: SpaceSpec) -> type[np.generic]:
    return np.float32 if isinstance(space, BoxSpec) else np.int64
