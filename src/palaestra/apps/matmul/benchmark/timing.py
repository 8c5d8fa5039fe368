"""How long each of several ways takes: in turns, so that whatever else the machine does meets them all alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Work = Callable[[], object]
LEAST_SAMPLE = 0.002  # seconds: what is shorter is repeated within a sample
LEAST_ROUNDS, MOST_ROUNDS = 5, 60
DROP_FACTOR = 1.6  # times the best: not asked again
SKIP_FACTOR = 8.0  # times the best: not even a second time, although the first call also pays for new memory


@dataclass(frozen=True)
class Timing:
    best: float  # seconds of one product
    middle: float
    rounds: int
    samples: tuple[float, ...] = ()  # of the rounds, in order


def time_interleaved(
    candidates: Mapping[str, Work], seconds: float, always: frozenset[str] = frozenset()
) -> dict[str, Timing]:
    """`seconds` for all together, at least five rounds; ways that are far behind drop out, those in `keep` never."""
    first = _first_looks(candidates)
    repeats = {name: max(1, round(LEAST_SAMPLE / max(taken, 1e-7))) for name, taken in first.items()}
    fastest = min(first.values())
    running = [name for name in candidates if name in always or first[name] <= DROP_FACTOR * fastest]
    samples = {name: [taken] for name, taken in first.items() if name not in running}
    samples |= {name: [] for name in running}
    begun, rounds = time.perf_counter(), 0
    while rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and time.perf_counter() - begun < seconds):
        for name in running if rounds % 2 == 0 else reversed(running):
            samples[name].append(_sample(candidates[name], repeats[name]))
        rounds += 1
    return {name: Timing(min(taken), median(taken), len(taken), tuple(taken)) for name, taken in samples.items()}


def ratio_of(slow: Timing, fast: Timing) -> Ratio:
    """How many times longer the first takes; of two that ran in the same rounds."""
    if len(slow.samples) != len(fast.samples) or not slow.samples:
        once = slow.best / fast.best
        return Ratio(once, once, once)
    return paired_ratio(slow.samples, fast.samples)


def _first_looks(candidates: Mapping[str, Work]) -> dict[str, float]:
    """A second look where the first is far behind: it may have paid for memory that is new."""
    first = {name: _sample(work, 1) for name, work in candidates.items()}
    fastest = min(first.values())
    again = [name for name, taken in first.items() if DROP_FACTOR * fastest < taken <= SKIP_FACTOR * fastest]
    return {**first, **{name: min(first[name], _sample(candidates[name], 1)) for name in again}}


def _sample(work: Work, repeats: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - begun) / repeats


DOUBT = 0.025  # on each side


@dataclass(frozen=True)
class Ratio:
    low: float
    middle: float
    high: float


def paired_ratio(one: Sequence[float], other: Sequence[float]) -> Ratio:
    """`one` over `other`, round by round; of fewer than six rounds the bounds are the extremes."""
    ratios = sorted(first / second for first, second in zip(one, other, strict=True))
    left_out = _left_out(len(ratios))
    return Ratio(ratios[left_out], median(ratios), ratios[-1 - left_out])


def _left_out(rounds: int) -> int:
    """From each end: so few that the bound lies beyond the true middle once in 40 times at most."""
    below, left_out = 0.0, 0
    while left_out < rounds // 2:
        below += comb(rounds, left_out) / 2**rounds
        if below > DOUBT:
            break
        left_out += 1
    return max(left_out - 1, 0)
