"""One trial of a sweep: what is tried, how far it came, what it was worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class TrialState(StrEnum):
    RUNNING = "running"  # drawn, and not over: its runs wait, train, or are to be continued
    FINISHED = "finished"
    PRUNED = "pruned"  # stopped early, because others were better
    FAILED = "failed"
    LOST = "lost"  # with its machines, more often than it is continued; the sweep's next start continues it

    @property
    def is_over(self) -> bool:
        return self is not TrialState.RUNNING


@dataclass(frozen=True)
class Trial:
    number: int  # from 1
    settings: dict[str, Any]  # dotted key -> value
    state: TrialState = TrialState.RUNNING
    value: float | None = None  # of the metric; None: not known, never 0 for that
    curve: dict[int, float] = field(default_factory=dict)  # tenth of the steps -> the metric there
    reason: str = ""  # why it failed or was lost


def best_of(trials: list[Trial], *, is_minimized: bool) -> Trial | None:
    """The finished trial with the best value; of equals the one that came first."""
    ranked = ranking(trials, is_minimized=is_minimized)
    return ranked[0] if ranked and ranked[0].state is TrialState.FINISHED else None


def ranking(trials: list[Trial], *, is_minimized: bool) -> list[Trial]:
    """Finished ones first, the best of them first; those without a value last."""

    def place(trial: Trial) -> tuple[bool, bool, float, int]:
        value = trial.value if trial.value is not None else 0.0
        is_finished = trial.state is TrialState.FINISHED
        return not is_finished, trial.value is None, value if is_minimized else -value, trial.number

    return sorted(trials, key=place)
