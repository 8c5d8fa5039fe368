"""The steps that DQN, SAC and TD3 learn from: a ring of rows, one row for each step of all environments.

A row holds the observations [B, …] that were acted on, and what followed: actions, rewards, and whether an episode
ended. The next row holds the next observations, so that each observation is stored once; only the last observation of
an episode that a time limit cut is kept apart, because the next row then begins another episode. Stacks of frames are
stored frame by frame (`frame_storage`).

Rows are numbered from the first step on; row n is at index n % `rows` of the arrays. Once complete, a row does not
change any more, so a checkpoint writes only the rows that are new (`replay_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.buffers.finite import refuse_non_finite, refuse_non_finite_ends
from palaestra.algorithms.buffers.frame_storage import EMPTY, FrameStorage, stack_axis
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
        self.history = max((_stack_of(part) - 1 for _, part in parts_of(self.space)), default=0)
        self.capacity = max(2, capacity // env_count)  # complete rows to learn from
        # one more holds the observations to act on next; `history` hold older frames of the oldest stacks
        self.rows = self.capacity + 1 + self.history
        shape = (self.rows, env_count)
        self.blocks: dict[str, NDArray[Any]] = {}  # by part of the observation, those that are stored whole
        self.stacks: dict[str, FrameStorage] = {}  # and those that are stored frame by frame
        for name, part in parts_of(self.space):
            self._store_part(name, part, in_frames=stack_axis(part) is not None)
        self.actions = np.zeros((*shape, *action_shape(interface.action_space)), action_dtype(interface.action_space))
        self.rewards = np.zeros(shape, np.float32)
        self.ends = np.zeros(shape, np.uint8)
        self.position = 0  # the row of the observations to act on next
        self.size = 0  # complete rows before it
        self.total_rows = 0  # complete rows so far, with those that were overwritten
        self.rewritten_row: int | None = None  # a complete row that was changed after all, by `cut_episodes`
        self.final_slots = np.full(shape, EMPTY, np.int32)  # where an observation that was kept apart is
        self.finals = {
            name: np.zeros((16, *shape_of(part)), storage_dtype(part)) for name, part in parts_of(self.space)
        }
        self._free_slots = list(range(15, -1, -1))

    @property
    def transitions(self) -> int:
        return self.size * self.env_count

    @property
    def oldest_row(self) -> int:
        """The number of the oldest row that is still needed, if only for its frames."""
        return max(0, self.total_rows - self.size - self.history)

    @property
    def current(self) -> Arrays:
        """[B, …] the observations to act on."""
        return self._row(self.total_rows)

    @property
    def following(self) -> Arrays:
        """[B, …] where the environments write their next observations, before `add`."""
        return self._row(self.total_rows + 1)

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
                self.keep_final(row, index, self._by_part(ending.final_observation))
        if self.stacks:
            self._add_stacks(row)
        self.position = (row + 1) % self.rows
        self.size = min(self.size + 1, self.capacity)
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
        shape = (len(rows), self.env_count)
        found = self._gather_parts(np.repeat(rows, self.env_count), np.tile(np.arange(self.env_count), len(rows)))
        parts = {name: part.reshape(*shape, *part.shape[1:]) for name, part in found.items()}
        return parts if isinstance(self.space, DictSpec) else parts[""]

    def refuse_non_finite(self, row_count: int) -> None:
        """The newest rows: what the environments gave in this iteration."""
        rows = self._newest_rows(row_count)
        seen = np.append(rows, self.position)
        floats = {name: block[seen] for name, block in self.blocks.items() if block.dtype == np.float32}
        refuse_non_finite(floats, self.rewards[rows], "iteration")

    def _newest_rows(self, row_count: int) -> NDArray[np.int64]:
        count = min(row_count, self.size)
        return (self.position - count + np.arange(count)) % self.rows

    def _observations(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> Arrays:
        found = self._gather_parts(rows, envs)
        return found if isinstance(self.space, DictSpec) else found[""]

    def _next_observations(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> Arrays:
        found = self._gather_parts((rows + 1) % self.rows, envs)
        slots = self.final_slots[rows, envs]
        kept_apart = np.flatnonzero(slots != EMPTY)
        for name, part in found.items():
            part[kept_apart] = self.finals[name][slots[kept_apart]]
        return found if isinstance(self.space, DictSpec) else found[""]

    def keep_final(self, row: int, env: int, parts: Mapping[str, NDArray[Any]]) -> None:
        """The last observation of an episode, which the next row does not hold."""
        if not self._free_slots:
            before = next(iter(self.finals.values())).shape[0]
            self.finals = {name: np.concatenate([kept, np.zeros_like(kept)]) for name, kept in self.finals.items()}
            self._free_slots = list(range(2 * before - 1, before - 1, -1))
        slot = self.final_slots[row, env] = self._free_slots.pop()
        for name, kept in self.finals.items():
            kept[slot] = parts[name]
            if kept.dtype == np.float32:
                refuse_non_finite_ends(kept[slot : slot + 1], [env])

    @property
    def free_slots(self) -> Sequence[int]:
        """Of `finals`; the last one is used next."""
        return self._free_slots

    def reserve_finals(self, count: int) -> None:
        """Room for so many last observations more, for an engine that adds rows by itself."""
        missing = count - len(self._free_slots)
        if missing > 0:
            before = next(iter(self.finals.values())).shape[0]
            self.finals = {
                name: np.concatenate([kept, np.zeros((missing, *kept.shape[1:]), kept.dtype)])
                for name, kept in self.finals.items()
            }
            self._free_slots = [*range(before + missing - 1, before - 1, -1), *self._free_slots]

    def advance(self, row_count: int, free_slots: Sequence[int]) -> None:
        """An engine has added rows by itself, and left these slots of `finals` free."""
        self.position = (self.position + row_count) % self.rows
        self.size = min(self.size + row_count, self.capacity)
        self.total_rows += row_count
        self._free_slots = list(free_slots)

    def release(self, rows: NDArray[np.int64]) -> None:
        """Frees what only some of the rows at these indices have, before they are written anew."""
        for row in rows[(self.final_slots[rows] != EMPTY).any(axis=1)]:
            self._release_finals(row)
        for stack in self.stacks.values():
            for row in rows[(stack.whole.slots[rows] != EMPTY).any(axis=1)]:
                stack.whole.release(row)

    def _release_finals(self, row: int) -> None:
        slots = self.final_slots[row]
        self._free_slots.extend(int(slot) for slot in slots[slots != EMPTY])
        slots[:] = EMPTY

    def cut_episodes(self) -> None:
        """The environments start anew: episodes under way end as if a time limit had cut them.

        Call it while `current` still holds their last observations.
        """
        if not self.size:
            return
        row = (self.position - 1) % self.rows
        current = {name: np.array(part) for name, part in self._parts_at(self.total_rows).items()}
        for env in np.flatnonzero(self.ends[row] == RUNNING):
            self.ends[row, env] = TRUNCATED
            self.keep_final(row, int(env), {name: part[env] for name, part in current.items()})
        self.rewritten_row = self.total_rows - 1
        for stack in self.stacks.values():
            stack.is_stored = False

    def capture(self) -> dict[str, Any]:
        """What `restore` needs beside the rows themselves, which are saved as segments; see `replay_rows`."""
        current = {name: as_tensor(np.array(part)) for name, part in self._parts_at(self.total_rows).items()}
        return {
            "total_rows": self.total_rows,
            "size": self.size,
            "in_frames": sorted(self.stacks),
            "observation": current,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Without its rows: `replay_rows.load_block` brings them, or `clear` gives them up."""
        for name, part in parts_of(self.space):
            self._store_part(name, part, in_frames=name in saved["in_frames"])
        self._forget_rows()
        self.total_rows = int(saved["total_rows"])
        self.size = min(int(saved["size"]), self.capacity)
        self.position = self.total_rows % self.rows
        self._write_current({name: part.numpy() for name, part in saved["observation"].items()})

    def clear(self) -> None:
        """No rows; the observations to act on next stay."""
        current = {name: np.array(part) for name, part in self._parts_at(self.total_rows).items()}
        self.position = self.size = self.total_rows = 0
        self._forget_rows()
        self._write_current(current)

    def finish_loading(self) -> None:
        """After the last row was loaded."""
        if self.size:
            for stack in self.stacks.values():
                stack.link_current(self.position, self.total_rows)

    def _write_current(self, observations: Mapping[str, NDArray[Any]]) -> None:
        for name, part in self._parts_at(self.total_rows).items():
            part[...] = observations[name]
        for stack in self.stacks.values():
            stack.is_stored = False

    def _forget_rows(self) -> None:
        self.rewritten_row = None
        self.final_slots[:] = EMPTY
        self._free_slots = list(range(len(next(iter(self.finals.values()))) - 1, -1, -1))
        for stack in self.stacks.values():
            stack.whole.clear()

    def _store_part(self, name: str, part: SpaceSpec, *, in_frames: bool) -> None:
        if in_frames == (name in self.stacks) and (in_frames or name in self.blocks):
            return
        axis = stack_axis(part)
        if in_frames:
            assert axis is not None, "only stacks are stored in frames"
            self.stacks[name] = FrameStorage(self.rows, self.env_count, shape_of(part), axis)
            self.blocks.pop(name, None)
        else:
            self.blocks[name] = np.zeros((self.rows, self.env_count, *shape_of(part)), storage_dtype(part))
            self.stacks.pop(name, None)

    def _add_stacks(self, row: int) -> None:
        if self.total_rows == 0:
            self._find_stacks(row)
        for stack in self.stacks.values():
            stack.add(row, self.total_rows)

    def _find_stacks(self, row: int) -> None:
        """After the first step: images whose frames did not move by one are no stacks, and are stored whole."""
        for name, part in parts_of(self.space):
            stack = self.stacks.get(name)
            if stack is None or stack.looks_stacked(self.total_rows, self.ends[row] != RUNNING):
                continue
            self._store_part(name, part, in_frames=False)
            self.blocks[name][row] = stack.current(self.total_rows)
            self.blocks[name][row + 1] = stack.following(self.total_rows)

    def _gather_parts(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        found = {name: block[rows, envs] for name, block in self.blocks.items()}
        return found | {name: stack.gather(rows, envs) for name, stack in self.stacks.items()}

    def _parts_at(self, total_rows: int) -> dict[str, NDArray[Any]]:
        """Views [B, …] of the row with that number, the current one or the following; by part."""
        parts: dict[str, NDArray[Any]] = {name: block[total_rows % self.rows] for name, block in self.blocks.items()}
        return parts | {name: stack.current(total_rows) for name, stack in self.stacks.items()}

    def _by_part(self, observation: Any) -> Mapping[str, Any]:
        return observation if isinstance(self.space, DictSpec) else {"": observation}

    def _row(self, total_rows: int) -> Arrays:
        parts = self._parts_at(total_rows)
        return parts if isinstance(self.space, DictSpec) else parts[""]


def _stack_of(part: SpaceSpec) -> int:
    """How many frames a stack has; 1 where there are no stacks."""
    axis = stack_axis(part)
    return 1 if axis is None else shape_of(part)[axis]


def action_shape(space: SpaceSpec) -> tuple[int, ...]:
    if isinstance(space, BoxSpec):
        return (space.size,)
    return () if isinstance(space, DiscreteSpec) else (len(space.counts),)  # type: ignore[union-attr]


def action_dtype(space: SpaceSpec) -> type[np.generic]:
    return np.float32 if isinstance(space, BoxSpec) else np.int64
