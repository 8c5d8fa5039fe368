"""SplitMix64: eight lines that are the same in every language, so that both worlds draw the same numbers."""

from __future__ import annotations

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


class Dice:
    def __init__(self, seed: int) -> None:
        self.state = seed & MASK

    def next(self) -> int:
        """64 bits"""
        self.state = (self.state + GOLDEN) & MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    def below(self, count: int) -> int:
        """0 to count - 1; count up to 2^31, where the unevenness is below one in two thousand million"""
        return ((self.next() >> 32) * count) >> 32
