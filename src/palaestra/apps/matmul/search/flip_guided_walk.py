"""Walks on the flip graph with a linear softmax policy over features of flips: compiled, or the same in Python."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Protocol

from palaestra.apps.matmul.search.flip_walk import WORD, Scheme, Xorshift64

if TYPE_CHECKING:
    from collections.abc import Sequence


try:
    from palaestra.apps.matmul.search import guided
except ImportError:  # installed without a C++ compiler
    IS_COMPILED = False
else:
    IS_COMPILED = True


# Features of a flip; they have the same meaning in every format.
FEATURES = ("reduces_rank", "bits_added", "gained_pairs", "lost_pairs", "reduction_is_near", "undoes_last", "visits")
UNIFORM_WEIGHTS = (0.0,) * len(FEATURES)


class GuidedWalk(Protocol):
    @property
    def current(self) -> Scheme: ...
    @property
    def rank(self) -> int: ...
    @property
    def rng_state(self) -> int: ...
    def run(self, steps: int, target: int) -> int: ...
    def features(self) -> list[list[float]]: ...
    def take(self, flip: int) -> None: ...


def start_guided_walk(scheme: Scheme, weights: Sequence[float], rng_state: int) -> GuidedWalk:
    """Weights in the order of FEATURES; UNIFORM_WEIGHTS draw every flip with equal probability."""
    if IS_COMPILED:
        return guided.GuidedWalk(scheme, weights, rng_state)
    return PythonGuidedWalk(scheme, weights, rng_state)


MAX_VISITS = 1 << 20  # the table of visits is cleared beyond this
VISIT_CAP = 4.0  # visits saturate here
NO_FLIP = (-1, 0, 0)


class PythonGuidedWalk:
    """The walk of native/matmul/guided_walk.cpp with the same random numbers and steps; see guided.pyi."""

    def __init__(self, scheme: Scheme, weights: Sequence[float], rng_state: int) -> None:
        self.current = [list(row) for row in scheme]
        self._weights = list(weights)
        self._rng = Xorshift64(rng_state or 0x9E3779B97F4A7C15)
        self._flips: list[tuple[int, int, int]] = []  # axis, first row, second row
        self._last = NO_FLIP
        self._visits: dict[int, int] = {}
        self._digest = self._digest_of_all()
        self._count_visit()

    @property
    def rank(self) -> int:
        return len(self.current)

    @property
    def rng_state(self) -> int:
        return self._rng.state

    def run(self, steps: int, target: int) -> int:
        made = 0
        while made < steps and self.rank > target:
            described = self.features()
            if not described:
                return made
            scores = [self._score(features) for features in described]
            highest = max(scores)
            mass = [exp(score - highest) for score in scores]
            total = 0.0
            for each in mass:
                total += each
            left = (self._rng.next() >> 11) * 2.0**-53 * total
            chosen = 0
            while chosen + 1 < len(mass) and left >= mass[chosen]:
                left -= mass[chosen]
                chosen += 1
            self._take(chosen)
            made += 1
        return made

    def features(self) -> list[list[float]]:
        rows = range(self.rank)
        self._flips = [
            (axis, i, j)
            for axis in range(3)
            for i in rows
            for j in rows
            if i != j and self.current[i][axis] == self.current[j][axis]
        ]
        return [self._describe(*flip) for flip in self._flips]

    def take(self, flip: int) -> None:
        if flip >= len(self.features()):
            raise IndexError("flip index out of range")
        self._take(flip)

    def _score(self, features: list[float]) -> float:
        score = 0.0
        for weight, feature in zip(self._weights, features, strict=True):
            score += weight * feature
        return score

    def _describe(self, x: int, first: int, second: int) -> list[float]:
        y, z = [axis for axis in range(3) if axis != x]
        a, b = self.current[first], self.current[second]
        new_y, new_z = a[y] ^ b[y], b[z] ^ a[z]
        gained = lost = near = 0.0
        for k, other in enumerate(self.current):
            if k != first:
                lost += other[y] == a[y]
                if other[y] == new_y:
                    gained += 1
                    near = 1.0 if other[x] == a[x] or other[z] == a[z] else near
            if k != second:
                lost += other[z] == b[z]
                if other[z] == new_z:
                    gained += 1
                    near = 1.0 if other[x] == b[x] or other[y] == b[y] else near
        after_a, after_b = list(a), list(b)
        after_a[y], after_b[z] = new_y, new_z
        after = (self._digest - _digest(a) - _digest(b) + _digest(after_a) + _digest(after_b)) & WORD
        lighter = new_y.bit_count() - a[y].bit_count() + new_z.bit_count() - b[z].bit_count()
        is_reversal = (x, first, second) == self._last
        seen = min(float(self._visits.get(after, 0)), VISIT_CAP) / VISIT_CAP
        return [float(not (new_y and new_z)), 0.25 * lighter, gained, lost, near, float(is_reversal), seen]

    def _take(self, flip: int) -> None:
        x, first, second = self._flips[flip]
        y, z = [axis for axis in range(3) if axis != x]
        self.current[first][y] ^= self.current[second][y]
        self.current[second][z] ^= self.current[first][z]
        self._last = (x, first, second)
        zero_rows = [row for row, axis in ((first, y), (second, z)) if not self.current[row][axis]]
        for row in sorted(zero_rows, reverse=True):
            self.current[row] = self.current[-1]
            self.current.pop()
            self._last = NO_FLIP
        self._digest = self._digest_of_all()
        self._count_visit()

    def _digest_of_all(self) -> int:
        return sum(map(_digest, self.current)) & WORD

    def _count_visit(self) -> None:
        if len(self._visits) >= MAX_VISITS:
            self._visits.clear()
        self._visits[self._digest] = self._visits.get(self._digest, 0) + 1


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def _digest(row: Sequence[int]) -> int:
    """Digest of a row; a scheme has the sum of them, which does not depend on the order of rows."""
    word = _mix((row[0] + 0x9E3779B97F4A7C15) & WORD)
    word = _mix((word + row[1]) & WORD)
    return _mix((word + row[2]) & WORD)
