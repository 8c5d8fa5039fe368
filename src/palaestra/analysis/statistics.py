"""Means and interquartile means with bootstrap intervals; equal values give equal intervals.

A sample has strata (simulations); what is resampled is drawn within its stratum, so that each keeps its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000
PERCENTILES = (2.5, 97.5)  # a 95 % interval
CHUNK = 2_000_000  # numbers drawn at a time, so that memory does not grow with the episodes

Values = NDArray[np.float64]
Statistic = Callable[[Sequence[Values]], Values]  # strata, each [..., n] -> [...]


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float | None = None  # None: a stratum has one value only, and nothing is known of its spread
    high: float | None = None


def format_estimate(one: Estimate | None) -> str:
    """`475.2 [470.1, 480.3]`"""
    if one is None:
        return "-"
    return f"{one.value:.4g}" if one.low is None else f"{one.value:.4g} [{one.low:.4g}, {one.high:.4g}]"


def mean_of_strata(strata: Sequence[Values]) -> Values:
    """The mean over strata of their means, so that each stratum has the same weight."""
    means: Values = np.mean([stratum.mean(axis=-1) for stratum in strata], axis=0)
    return means


def interquartile_mean(strata: Sequence[Values]) -> Values:
    """The mean without the lowest and the highest quarter of all values (each quarter rounded down to whole values)."""
    pooled = np.sort(np.concatenate(strata, axis=-1), axis=-1)
    count = pooled.shape[-1]
    cut = count // 4
    middle: Values = pooled[..., cut : count - cut].mean(axis=-1)
    return middle


def estimate(strata: Sequence[Values], statistic: Statistic, seed: int = 0) -> Estimate:
    """The statistic with its 95 % percentile interval over `RESAMPLES` samples drawn with replacement."""
    value = float(statistic(strata))
    if min(len(stratum) for stratum in strata) < 2:
        return Estimate(value)
    generator = np.random.default_rng(seed)
    drawn = np.concatenate(
        [
            statistic([stratum[generator.integers(len(stratum), size=(count, len(stratum)))] for stratum in strata])
            for count in _chunks(sum(map(len, strata)))
        ]
    )
    return _interval(value, drawn)


def probability_of_improvement(pairs: Sequence[tuple[Values, Values]], seed: int = 0) -> Estimate:
    """The probability that a value of the first is above one of the second (ties count half), averaged over strata."""
    wins = [np.greater.outer(one, other) + 0.5 * np.equal.outer(one, other) for one, other in pairs]
    value = float(np.mean([won.mean() for won in wins]))
    if min(min(won.shape) for won in wins) < 2:
        return Estimate(value)
    generator = np.random.default_rng(seed)
    drawn = []
    for count in _chunks(sum(sum(won.shape) for won in wins)):
        # A resample is how often each value was drawn; the wins among the drawn follow by two products.
        shares = [
            ((_times_drawn(won.shape[0], count, generator) @ won) * _times_drawn(won.shape[1], count, generator)).sum(1)
            / won.size
            for won in wins
        ]
        drawn.append(np.mean(shares, axis=0))
    return _interval(value, np.concatenate(drawn))


def mean_band(values: Values, seed: int = 0) -> tuple[Values, Values]:
    """95 % intervals of the means over runs of `values` [runs, cells]; NaN is a run without a value there.

    NaN where fewer than two runs have one.
    """
    there = np.isfinite(values)
    times = _times_drawn(len(values), RESAMPLES, np.random.default_rng(seed))
    sums, counts = times @ np.where(there, values, 0.0), times @ there.astype(np.float64)
    low, high = (np.full(values.shape[1], np.nan) for _ in range(2))
    for cell in np.flatnonzero(there.sum(axis=0) >= 2):
        held = counts[:, cell] > 0  # a resample may hold only runs without a value here
        low[cell], high[cell] = np.percentile(sums[held, cell] / counts[held, cell], PERCENTILES)
    return low, high


def _times_drawn(size: int, resamples: int, generator: np.random.Generator) -> Values:
    """[resamples, size]"""
    return generator.multinomial(size, np.full(size, 1 / size), size=resamples).astype(np.float64)


def _chunks(size: int) -> Iterator[int]:
    left = RESAMPLES
    while left > 0:
        count = min(left, max(1, CHUNK // size))
        yield count
        left -= count


def _interval(value: float, drawn: Values) -> Estimate:
    low, high = np.percentile(drawn, PERCENTILES)
    return Estimate(value, float(low), float(high))
