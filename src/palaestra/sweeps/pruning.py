"""Successive halving, without waiting for anybody: at each rung the worse half of those that came there is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.sweeps.trial import Trial

RUNGS = (2, 4, 8)  # tenths of a trial's steps
LEAST = 4  # trials at a rung before anybody is judged by it


def is_worse_half(trial: Trial, trials: list[Trial], *, is_minimized: bool) -> bool:
    """Whether at its last rung the trial is below the middle of all that reached it. Of equals nobody is worse."""
    rung = max((rung for rung in RUNGS if rung in trial.curve), default=None)
    if rung is None:
        return False
    there = [one.curve[rung] for one in trials if rung in one.curve]
    own = trial.curve[rung]
    better = sum(value < own if is_minimized else value > own for value in there)
    return len(there) >= LEAST and better >= len(there) - len(there) // 2
