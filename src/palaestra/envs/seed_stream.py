"""One seed after the other, from a first one: SplitMix64, which is the same in every language."""

from __future__ import annotations

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


class SeedStream:
    def __init__(self, seed: int) -> None:
        self.state = seed & MASK  # all there is to be saved

    def next(self) -> int:
        """64 bits"""
        self.state = (self.state + GOLDEN) & MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)
