"""Random numbers as a function of a seed, an index and a counter: there is no generator state to save.

The construction is SplitMix64's, as in native/engine/random.hpp, so that all engines draw the same numbers. A stream of
numbers has a purpose of its own (`draw_seed(config.seed, purpose, rank)`); its index says when (steps of this process's
environments, or updates so far), and the counter says which of those drawn at that time.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.core.seeds import draw_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 2**64 - 1
STRIDE = 0x9E3779B97F4A7C15  # the golden ratio times 2^64
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
LOW_HALF = np.uint64(2**32 - 1)


class CounterRng:
    """The numbers of one index of a stream; every method draws those of the counters 0, 1, … in the shape's order."""

    def __init__(self, seed: int, index: int) -> None:
        self.key = _mix((seed + _mix((index + 1) * STRIDE & LARGEST)) & LARGEST)

    def bits(self, shape: tuple[int, ...] | int) -> NDArray[np.uint64]:
        """64 random bits each."""
        count = shape if isinstance(shape, int) else prod(shape)
        words = np.arange(1, count + 1, dtype=np.uint64).reshape(shape)
        words *= np.uint64(STRIDE)  # modulo 2^64, as all that follows
        words += np.uint64(self.key)
        words ^= words >> np.uint64(30)
        words *= np.uint64(FACTORS[0])
        words ^= words >> np.uint64(27)
        words *= np.uint64(FACTORS[1])
        words ^= words >> np.uint64(31)
        return words

    def uniform(self, shape: tuple[int, ...] | int) -> NDArray[np.float32]:
        """In [0, 1), in steps of 2^-24."""
        return (self.bits(shape) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)

    def normal(self, shape: tuple[int, ...] | int) -> NDArray[np.float32]:
        """Box-Muller transform of one word each: 32 bits for the radius, 32 for the angle."""
        words = self.bits(shape)
        radius = ((words >> np.uint64(32)) + np.uint64(1)).astype(np.float64) * 2**-32
        angle = (words & LOW_HALF).astype(np.float64) * 2**-32
        return (np.sqrt(-2.0 * np.log(radius)) * np.cos(2 * np.pi * angle)).astype(np.float32)

    def below(self, limit: int, shape: tuple[int, ...] | int) -> NDArray[np.int64]:
        """Integers in [0, limit); `limit` is at most 2^32."""
        return ((self.bits(shape) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(np.int64)


class RandomStreams:
    """The streams of one process, by purpose; the leader's are those of a process alone."""

    def __init__(self, seed: int, rank: int = 0) -> None:
        self._seed = seed
        self._rank = rank
        self._seeds: dict[str, int] = {}

    def __call__(self, purpose: str, index: int) -> CounterRng:
        if purpose not in self._seeds:
            self._seeds[purpose] = draw_seed(self._seed, purpose, self._rank)
        return CounterRng(self._seeds[purpose], index)


def _mix(word: int) -> int:
    word = (word ^ (word >> 30)) * FACTORS[0] & LARGEST
    word = (word ^ (word >> 27)) * FACTORS[1] & LARGEST
    return word ^ (word >> 31)
