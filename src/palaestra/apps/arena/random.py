"""The dice of a world: SplitMix64, which is the same in every language, so that both worlds draw the same numbers."""

from __future__ import annotations

from palaestra.envs.vector.batch import SeedStream


class Dice(SeedStream):
    def below(self, count: int) -> int:
        """0 to count - 1; count up to 2^31, where the unevenness is below one in two thousand million"""
        return ((self.next() >> 32) * count) >> 32
