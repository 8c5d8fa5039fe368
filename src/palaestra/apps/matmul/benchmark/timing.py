"""Interleaved timing of several candidates, and paired comparison of their rounds.

Other load on a machine affects all candidates of a round alike. So rounds are compared one by one; the median of the
ratios counts, with distribution-free confidence bounds.
"""

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
MIN_SAMPLE = 0.002  # seconds; shorter work is repeated within a sample
MIN_ROUNDS, MAX_ROUNDS = 5, 60
DROP_FACTOR = 1.6  # times the fastest: not timed again
SKIP_FACTOR = 8.0  # times the fastest: no second sample, although the first includes memory allocation


@dataclass(frozen=True)
class Timing:
    best: float  # seconds
    median: float
    rounds: int
    samples: tuple[float, ...] = ()  # by round


def time_interleaved(
    candidates: Mapping[str, Work], seconds: float, always: frozenset[str] = frozenset()
) -> dict[str, Timing]:
    """Times all candidates for `seconds` in total, at least five rounds; slow ones drop out unless in `always`."""
    first = _first_samples(candidates)
    repeats = {name: max(1, round(MIN_SAMPLE / max(taken, 1e-7))) for name, taken in first.items()}
    fastest = min(first.values())
    running = [name for name in candidates if name in always or first[name] <= DROP_FACTOR * fastest]
    samples = {name: [taken] for name, taken in first.items() if name not in running}
    samples |= {name: [] for name in running}
    started, rounds = time.perf_counter(), 0
    while rounds < MIN_ROUNDS or (rounds < MAX_ROUNDS and time.perf_counter() - started < seconds):
        for name in running if rounds % 2 == 0 else reversed(running):
            samples[name].append(_sample(candidates[name], repeats[name]))
        rounds += 1
    return {name: Timing(min(taken), median(taken), len(taken), tuple(taken)) for name, taken in samples.items()}


def ratio_of(slow: Timing, fast: Timing) -> Ratio:
    """Time of `slow` relative to `fast`, from common rounds."""
    if len(slow.samples) != len(fast.samples) or not slow.samples:
        once = slow.best / fast.best
        return Ratio(once, once, once)
    return paired_ratio(slow.samples, fast.samples)


def _first_samples(candidates: Mapping[str, Work]) -> dict[str, float]:
    """First samples; slow candidates get a second one, since the first includes memory allocation."""
    first = {name: _sample(work, 1) for name, work in candidates.items()}
    fastest = min(first.values())
    slow_candidates = [name for name, taken in first.items() if DROP_FACTOR * fastest < taken <= SKIP_FACTOR * fastest]
    return {**first, **{name: min(first[name], _sample(candidates[name], 1)) for name in slow_candidates}}


def _sample(work: Work, repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - started) / repeats


TAIL_PROBABILITY = 0.025  # probability on each side


@dataclass(frozen=True)
class Ratio:
    low: float
    median: float
    high: float


def paired_ratio(one: Sequence[float], other: Sequence[float]) -> Ratio:
    """Ratios of `one` to `other` by round; with fewer than six rounds the bounds are the extremes."""
    ratios = sorted(first / second for first, second in zip(one, other, strict=True))
    dropped = _dropped_count(len(ratios))
    return Ratio(ratios[dropped], median(ratios), ratios[-1 - dropped])


def _dropped_count(rounds: int) -> int:
    """Number of extreme ratios to drop on each side, so that each bound fails with probability 2.5 % at most."""
    tail, dropped = 0.0, 0
    while dropped < rounds // 2:
        tail += comb(rounds, dropped) / 2**rounds
        if tail > TAIL_PROBABILITY:
            break
        dropped += 1
    return max(dropped - 1, 0)
