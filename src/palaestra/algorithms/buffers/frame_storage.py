"""Stacks of frames, of which each frame is stored once.

A stack of four images shares three with the stack before it. So a row holds the newest frame only, and how many rows
back the last stack is that was stored whole: the first one of an episode, or one whose older frames are not the newer
ones of the row before, which is checked whenever a stack is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.spaces import BoxSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palaestra.core.spaces import SpaceSpec

LARGEST_STACK = 16
EMPTY = -1  # no slot


class SlotPool:
    """Arrays of one shape that a few of many rows have; slots of rows that were overwritten are used again."""

    def __init__(self, rows: int, env_count: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.slots = np.full((rows, env_count), EMPTY, np.int32)
        self.arrays = np.zeros((16, *shape), dtype)
        self._free = list(range(15, -1, -1))

    def put(self, row: int, env: int, value: NDArray[Any]) -> None:
        if not self._free:
            before = len(self.arrays)
            self.arrays = np.concatenate([self.arrays, np.zeros_like(self.arrays)])
            self._free = list(range(2 * before - 1, before - 1, -1))
        self.slots[row, env] = self._free.pop()
        self.arrays[self.slots[row, env]] = value

    def release(self, row: int) -> None:
        slots = self.slots[row]
        self._free.extend(int(slot) for slot in slots[slots != EMPTY])
        slots[:] = EMPTY

    def clear(self) -> None:
        self.slots[:] = EMPTY
        self._free = list(range(len(self.arrays) - 1, -1, -1))


class FrameStorage:
    def __init__(self, rows: int, env_count: int, shape: tuple[int, ...], axis: int) -> None:
        """`shape` is that of one observation, `axis` the one along which it is a stack, oldest frame first."""
        self.shape = shape
        self.axis = axis
        self.stack = shape[axis]
        frame = shape[:axis] + shape[axis + 1 :]
        self.frames = np.zeros((rows, env_count, *frame), np.uint8)  # the newest of each stack
        self.ages = np.zeros((rows, env_count), np.uint8)  # rows since a stack was stored whole, at most `stack`
        self.whole = SlotPool(rows, env_count, (self.stack, *frame), np.uint8)
        self._stacks = np.zeros((2, env_count, *shape), np.uint8)  # the rows before and after the step that is taken
        self.is_stored = False  # the current one

    def current(self, total_rows: int) -> NDArray[np.uint8]:
        """[B, …] the stacks to act on, which the environments have written."""
        array: NDArray[np.uint8] = self._stacks[total_rows % 2]
        return array

    def following(self, total_rows: int) -> NDArray[np.uint8]:
        """[B, …] where the environments write the next ones."""
        return self.current(total_rows + 1)

    def looks_stacked(self, total_rows: int, ended: NDArray[np.bool_]) -> bool:
        """Whether the step that was just taken moved all frames by one; `ended` [B]: episodes of which it was the
        last."""
        moved = self._moved(self.current(total_rows), self.following(total_rows))
        return bool((moved | ended).all())

    def add(self, row: int, total_rows: int) -> None:
        """Stores `following`, and `current` too if that is new."""
        current = self.current(total_rows)
        if not self.is_stored:
            self._store(row, current, None)
        self._store((row + 1) % len(self.frames), self.following(total_rows), current)
        self.is_stored = True

    def link_current(self, row: int, total_rows: int) -> None:
        """Store `current` after the row before it, as `add` would have; for stacks that come from a checkpoint."""
        every = np.arange(self.frames.shape[1])
        self._store(row, self.current(total_rows), self.gather(np.full_like(every, row - 1), every))
        self.is_stored = True

    def gather(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> NDArray[np.uint8]:
        """[N, …] the stacks of these rows."""
        count = len(self.frames)
        ages = self.ages[rows, envs].astype(np.int64)
        found = np.empty((len(rows), *self.shape), np.uint8)
        by_frame = np.moveaxis(found, self.axis + 1, 0)  # [k, N, …]
        slots = self.whole.slots[(rows - ages) % count, envs]
        for number in range(self.stack):
            back = self.stack - 1 - number
            by_frame[number] = self.frames[(rows - back) % count, envs]
            old = np.flatnonzero(ages < back)  # from before the first row that has its own frame
            by_frame[number][old] = self.whole.arrays[slots[old], number + ages[old]]
        return found

    def put_whole(self, row: int, env: int, parts: Mapping[str, NDArray[Any]]) -> None:
        """The frames [k, …] of a stack from a checkpoint, under the name ""."""
        self.whole.put(row, env, parts[""])

    def _store(self, row: int, stacks: NDArray[np.uint8], previous: NDArray[np.uint8] | None) -> None:
        self.whole.release(row)
        by_frame = np.moveaxis(stacks, self.axis + 1, 1)  # [B, k, …]
        self.frames[row] = by_frame[:, -1]
        self.ages[row] = np.minimum(self.ages[row - 1] + 1, self.stack)
        fresh = range(len(stacks)) if previous is None else np.flatnonzero(~self._moved(previous, stacks))
        for env in fresh:
            self.ages[row, env] = 0
            self.whole.put(row, int(env), by_frame[env])

    def _moved(self, before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """[B] whether the older frames of `after` are the newer ones of `before`."""
        newer = np.moveaxis(before, self.axis + 1, 1)[:, 1:]
        older = np.moveaxis(after, self.axis + 1, 1)[:, :-1]
        same: NDArray[np.bool_] = (newer == older).reshape(len(before), -1).all(axis=1)
        return same


def stack_axis(space: SpaceSpec) -> int | None:
    """The axis along which images of this space may be stacked; None where they are not.

    Frames [H, W] are stacked first or last, frames [H, W, C] first. Three of the former are taken for colours.
    """
    if not isinstance(space, BoxSpec) or space.dtype != "uint8":
        return None
    shape = space.shape
    if len(shape) == 4:
        return 0 if _is_stack(shape[0], shape[1:3]) else None
    if len(shape) != 3 or 3 in (shape[0], shape[2]):
        return None
    if _is_stack(shape[0], shape[1:]):
        return 0
    return 2 if _is_stack(shape[2], shape[:2]) else None


def _is_stack(count: int, frame: tuple[int, ...]) -> bool:
    return 2 <= count <= LARGEST_STACK and count < min(frame)
