"""How many times longer one way takes than another, from rounds in which both ran side by side.

Whatever else a machine does comes and goes within seconds; it meets both samples of a round alike. So rounds are
compared one by one, and the middle of their ratios counts, between bounds that hold 19 times of 20 whatever the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
