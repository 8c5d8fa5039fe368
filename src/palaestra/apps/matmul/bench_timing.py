"""How long each of several ways takes: in turns, so that whatever else the machine does meets them all alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Work = Callable[[], object]
LEAST_SAMPLE = 0.002  # seconds: what is shorter is repeated within a sample
LEAST_ROUNDS, MOST_ROUNDS = 3, 60
HOPELESS = 1.6  # times the best: not asked again


@dataclass(frozen=True)
class Timing:
    best: float  # seconds of one product
    middle: float
    rounds: int


def time_in_turns(ways: Mapping[str, Work], seconds: float, keep: frozenset[str] = frozenset()) -> dict[str, Timing]:
    """`seconds` for all together, at least three rounds; ways that are far behind drop out, those in `keep` never."""
    first = {name: _sample(work, 1) for name, work in ways.items()}
    repeats = {name: max(1, round(LEAST_SAMPLE / max(taken, 1e-7))) for name, taken in first.items()}
    fastest = min(first.values())
    running = [name for name in ways if name in keep or first[name] <= HOPELESS * fastest]
    samples = {name: [taken] for name, taken in first.items() if name not in running}
    samples |= {name: [] for name in running}
    begun, rounds = time.perf_counter(), 0
    while rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and time.perf_counter() - begun < seconds):
        for name in running if rounds % 2 == 0 else reversed(running):
            samples[name].append(_sample(ways[name], repeats[name]))
        rounds += 1
    return {name: Timing(min(taken), median(taken), len(taken)) for name, taken in samples.items()}


def _sample(work: Work, repeats: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - begun) / repeats
