"""Prioritised experience replay (Schaul et al., 2016): transitions with large TD errors are drawn more often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.serialization import as_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palaestra.algorithms.counter_rng import CounterRng
    from palaestra.config.dqn import PrioritizedReplayConfig


class SumTree:
    """A binary tree of sums in float64: node 1 is the root, the children of n are 2n and 2n + 1.

    Every node is its children's sum, computed anew where a leaf changed and never by differences. So sums do not drift,
    and the tree is a function of its leaves.
    """

    def __init__(self, size: int) -> None:
        self.leaf_count = 1 << max(1, (size - 1).bit_length())  # a power of two
        self.sums = np.zeros(2 * self.leaf_count, np.float64)
        self._levels = self.leaf_count.bit_length() - 1

    @property
    def total(self) -> float:
        return float(self.sums[1])

    def values(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.sums[indices + self.leaf_count]

    def set(self, indices: NDArray[np.int64], values: NDArray[np.float64] | float) -> None:
        nodes = indices + self.leaf_count
        self.sums[nodes] = values
        for _ in range(self._levels):
            nodes >>= 1
            left = 2 * nodes
            self.sums[nodes] = self.sums[left] + self.sums[left + 1]

    def find(self, masses: NDArray[np.float64]) -> NDArray[np.int64]:
        """The leaf in which each mass in [0, total) falls, if leaves lie side by side; never one of value 0."""
        masses, nodes = masses.copy(), np.ones(len(masses), np.int64)
        for _ in range(self._levels):
            left = 2 * nodes
            left_sums = self.sums[left]
            goes_right = (masses >= left_sums) & (self.sums[left + 1] > 0)
            masses -= np.where(goes_right, left_sums, 0.0)
            nodes = left + goes_right
        return nodes - self.leaf_count

    def rebuild(self, leaves: NDArray[np.float64]) -> None:
        self.sums[self.leaf_count : self.leaf_count + len(leaves)] = leaves
        first = self.leaf_count
        while first > 1:
            level = self.sums[first : 2 * first]
            first //= 2
            self.sums[first : 2 * first] = level[0::2] + level[1::2]


class Priorities:
    """One priority for each step of a replay buffer, by its index (row * B + environment), raised to alpha."""

    def __init__(self, config: PrioritizedReplayConfig, row_count: int, env_count: int) -> None:
        self.config = config
        self.env_count = env_count
        self.size = row_count * env_count
        self.tree = SumTree(self.size)
        self.largest = 1.0  # so far; raised to alpha

    def add_row(self, row: int, dropped_row: int) -> None:
        """A row is complete; another one is too old to be drawn from now on, or was never written."""
        envs = np.arange(self.env_count)
        self.tree.set(row * self.env_count + envs, self.largest)
        self.tree.set(dropped_row * self.env_count + envs, 0.0)

    def draw(self, rng: CounterRng, count: int, beta: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Indices [count], one from each of `count` equal parts of the sum, and importance weights [count].

        A weight is (N P(i))^-beta over the batch's largest, so N and the sum cancel.
        """
        masses = np.arange(count, dtype=np.float64)
        masses += rng.uniform(count)
        masses *= self.tree.total / count
        indices = self.tree.find(masses)
        values = self.tree.values(indices)
        return indices, ((values.min() / values) ** beta).astype(np.float32)

    def update(self, indices: NDArray[np.int64], td_errors: NDArray[np.float32]) -> None:
        values = (np.abs(td_errors.astype(np.float64)) + self.config.epsilon) ** self.config.alpha
        self.tree.set(indices, values)
        self.largest = max(self.largest, float(values.max()))

    def clear(self) -> None:
        """Of no steps; how large new ones are stays."""
        self.tree.sums[:] = 0.0

    def capture(self) -> dict[str, Any]:
        leaves = self.tree.sums[self.tree.leaf_count : self.tree.leaf_count + self.size]
        return {"leaves": as_tensor(leaves.copy()), "largest": self.largest}

    def restore(self, saved: Mapping[str, Any]) -> None:
        leaves = saved["leaves"].numpy()
        if len(leaves) != self.size:
            raise ValueError(f"there are priorities of {len(leaves)} steps, and the buffer has {self.size}")
        self.tree.rebuild(leaves)
        self.largest = float(saved["largest"])
