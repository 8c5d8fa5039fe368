"""Random walks on the flip graph: compiled, or PythonWalk with the same steps.

Rows i and j with an equal factor x: (x,y,z) + (x,y',z') = (x,y+y',z) + (x,y',z+z') is a flip. A row with a factor of
zeros is removed, which reduces the rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError

try:
    from palaestra.apps.matmul.search import flips
except ImportError:  # installed without a C++ compiler
    IS_COMPILED = False
else:
    IS_COMPILED = True

SLOW_WARNING = "Searching without the compiled walk, hundreds of times slower: reinstall with a C++ compiler."


class Walk(Protocol):
    """A walk that can be saved and resumed: the arguments of `resume_walk` are its complete state."""

    @property
    def current(self) -> Scheme: ...
    @property
    def best(self) -> Scheme: ...
    @property
    def best_rank(self) -> int: ...
    @property
    def rng_state(self) -> int: ...
    @property
    def since_reduction(self) -> int: ...
    def run(self, steps: int, plus_period: int, margin: int, target: int) -> int: ...


class SignedWalk(Protocol):
    """A walk over zt or z3; compiled only."""

    @property
    def best(self) -> Scheme: ...
    @property
    def best_rank(self) -> int: ...
    @property
    def weight(self) -> int: ...
    def run(self, steps: int, plus_period: int, margin: int, target: int, temperature: float) -> int: ...


def resume_ternary_walk(current: Scheme, best: Scheme, rng_state: int, since_reduction: int) -> SignedWalk | None:
    """A walk over zt that can prefer few coefficients; None without the compiled module."""
    return _SignedWideWalk("TernaryWalk", current, best, rng_state, since_reduction) if IS_COMPILED else None


def resume_walk(current: Scheme, best: Scheme, rng_state: int, since_reduction: int, ring: Field = Field.GF2) -> Walk:
    """A walk over gf2, z3 or zt; over the last two rows have six masks, and the walk is compiled only."""
    if ring is Field.GF2:
        if not IS_COMPILED:
            return PythonWalk(current, best, rng_state, since_reduction)
        if mask_width(current) == 1:
            return flips.BinaryWalk(current, best, rng_state, since_reduction)
        return _WideWalk("BinaryWalk", current, best, rng_state, since_reduction)
    if not IS_COMPILED:
        raise UsageError(f"A walk over {ring} needs the compiled walk.", SLOW_WARNING)
    name = "Modulo3Walk" if ring is Field.Z3 else "TernaryWalk"
    return _WideWalk(name, current, best, rng_state, since_reduction)


def mask_width(scheme: Scheme) -> int:
    """Words of 64 bits for each mask of a compiled walk: 1, 2 or 4."""
    bits = max((mask.bit_length() for row in scheme for mask in row), default=1)
    return next(words for words in (1, 2, 4) if bits <= 64 * words)


class _WideWalk:
    """A compiled walk whose masks are split into words of 64 bits."""

    def __init__(self, name: str, current: Scheme, best: Scheme, rng_state: int, since_reduction: int) -> None:
        self._words = mask_width(current)
        kind = getattr(flips, name if self._words == 1 else f"{name}{64 * self._words}")
        self._walk = kind(self._split(current), self._split(best), rng_state, since_reduction)

    @property
    def current(self) -> Scheme:
        return self._joined(self._walk.current)

    @property
    def best(self) -> Scheme:
        return self._joined(self._walk.best)

    @property
    def best_rank(self) -> int:
        return int(self._walk.best_rank)

    @property
    def rng_state(self) -> int:
        return int(self._walk.rng_state)

    @property
    def since_reduction(self) -> int:
        return int(self._walk.since_reduction)

    def run(self, steps: int, plus_period: int, margin: int, target: int) -> int:
        return int(self._walk.run(steps, plus_period, margin, target))

    def _split(self, scheme: Scheme) -> Scheme:
        return [[mask >> 64 * at & WORD for mask in row for at in range(self._words)] for row in scheme]

    def _joined(self, rows: Scheme) -> Scheme:
        count = self._words
        return [[sum(row[at + k] << 64 * k for k in range(count)) for at in range(0, len(row), count)] for row in rows]


class _SignedWideWalk(_WideWalk):
    @property
    def weight(self) -> int:
        return int(self._walk.weight)

    def run(self, steps: int, plus_period: int, margin: int, target: int, temperature: float = 0.0) -> int:
        return int(self._walk.run(steps, plus_period, margin, target, temperature))


def resume_cyclic_walk(current: Scheme, best: Scheme, rng_state: int, since_reduction: int) -> Walk:
    """A walk among cyclic-symmetric schemes; compiled only."""
    if not IS_COMPILED:  # a search from another machine
        raise UsageError(
            "This search walks among schemes that can be turned, which needs the compiled walk.", SLOW_WARNING
        )
    return flips.CyclicWalk(current, best, rng_state, since_reduction)


Scheme = list[list[int]]  # rows of three bit masks
WORD = (1 << 64) - 1
ATTEMPTS = 1000


@dataclass
class Xorshift64:
    """The xorshift64* generator."""

    state: int

    def next(self) -> int:
        state = self.state
        state ^= state >> 12
        state ^= (state << 25) & WORD
        state ^= state >> 27
        self.state = state
        return (state * 0x2545F4914F6CDD1D) & WORD

    def below(self, count: int) -> int:
        return ((self.next() >> 32) * count) >> 32


class PythonWalk:
    """The walk of native/matmul/binary_walk.cpp with the same random numbers and steps; see flips.pyi."""

    def __init__(self, current: Scheme, best: Scheme, rng_state: int, since_reduction: int) -> None:
        self.current = [list(row) for row in current]
        self.best = [list(row) for row in best]
        self.since_reduction = since_reduction
        self._rng = Xorshift64(rng_state or 0x9E3779B97F4A7C15)
        self._pairs: list[list[tuple[int, int]]] = [[], [], []]

    @property
    def rng_state(self) -> int:
        return self._rng.state

    @property
    def rank(self) -> int:
        return len(self.current)

    @property
    def best_rank(self) -> int:
        return len(self.best)

    def run(self, steps: int, plus_period: int, margin: int, target: int) -> int:
        self._rebuild()
        made = 0
        while made < steps and self.best_rank > target:
            made += 1
            self.since_reduction += 1
            is_stuck = not any(self._pairs)
            if is_stuck or self.since_reduction >= plus_period:
                self.since_reduction = 0
                has_risen = self.rank < self.best_rank + margin and self._plus()
                if is_stuck and not has_risen:
                    return made
            elif self._flip() and self.rank < self.best_rank:
                self.best = [list(row) for row in self.current]
                self.since_reduction = 0
        return made

    def _rebuild(self) -> None:
        rows = range(self.rank)
        self._pairs = [
            [(i, j) for i in rows for j in rows[i + 1 :] if self.current[i][axis] == self.current[j][axis]]
            for axis in range(3)
        ]

    def _refresh(self, axis: int, row: int) -> None:
        pairs = self._pairs[axis]
        left = sum(row in pair for pair in pairs)
        place = 0
        while left:
            if row in pairs[place]:
                left -= 1
                pairs[place] = pairs[-1]
                pairs.pop()
            else:
                place += 1
        factor = self.current[row][axis]
        pairs += [(row, other) for other in range(self.rank) if other != row and self.current[other][axis] == factor]

    def _flip(self) -> bool:
        counts = [len(pairs) for pairs in self._pairs]
        word = self._rng.next()
        chosen = ((word >> 32) * sum(counts)) >> 32
        x = 0
        while chosen >= counts[x]:
            chosen -= counts[x]
            x += 1
        y, z = [axis for axis in range(3) if axis != x]
        first, second = self._pairs[x][chosen]
        if word & (1 << 20):
            first, second = second, first
        self.current[first][y] ^= self.current[second][y]
        self.current[second][z] ^= self.current[first][z]
        zero_rows = [row for row, axis in ((first, y), (second, z)) if not self.current[row][axis]]
        if not zero_rows:
            self._refresh(y, first)
            self._refresh(z, second)
            return False
        for row in sorted(zero_rows, reverse=True):
            self.current[row] = self.current[-1]
            self.current.pop()
        self._rebuild()
        return True

    def _plus(self) -> bool:
        for _ in range(ATTEMPTS if self.rank > 1 else 0):
            i, j = self._rng.below(self.rank), self._rng.below(self.rank)
            if i == j:
                continue
            x = self._rng.below(3)
            y = (x + 1 + self._rng.below(2)) % 3
            z = 3 - x - y
            a, b = list(self.current[i]), list(self.current[j])
            if any(one == other for one, other in zip(a, b, strict=True)):
                continue
            added = [0, 0, 0]
            added[x], added[y], added[z] = a[x] ^ b[x], b[y], b[z]
            self.current[i][y] = a[y] ^ b[y]
            self.current[j][x], self.current[j][z] = a[x], a[z] ^ b[z]
            self.current.append(added)
            self._rebuild()
            return True
        return False
