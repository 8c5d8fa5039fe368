"""A sweep as a table, the best first, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from palaestra.cli.output import note, print_table
from palaestra.sweeps.trial import TrialState, best_of, ranking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.sweeps.plan import SweepPlan
    from palaestra.sweeps.trial import Trial

BEST = "*"


def print_trials(plan: SweepPlan, trials: Sequence[Trial], shares: dict[str, float]) -> None:
    best = best_of(list(trials), is_minimized=plan.is_minimized)
    keys = [parameter.key for parameter in plan.parameters]
    columns = ("", "trial", "state", plan.config.metric, *keys, "run")
    rows = [_row(plan, trial, keys, is_best=trial is best) for trial in _ranked(plan, trials)]
    print_table(columns, rows, empty=f"The sweep '{plan.name}' has no trials yet.")
    for trial in trials:
        if trial.reason:
            note(f"trial {trial.number}: {trial.reason}")
    if shares:
        note("importance: " + ", ".join(f"{key} {share:.0%}" for key, share in shares.items()))
    if best is not None:
        note(f"Best is trial {best.number}. Next: palaestra train --from-trial {plan.name}:{best.number}")


def as_data(plan: SweepPlan, trials: Sequence[Trial], shares: dict[str, float]) -> dict[str, Any]:
    best = best_of(list(trials), is_minimized=plan.is_minimized)
    return {
        "name": plan.name,
        "config": plan.config.model_dump(mode="json"),
        "best": best and best.number,
        "importance": shares,
        "trials": [
            {**asdict(trial), "runs": [name for name, _ in plan.run_names(trial.number)]}
            for trial in _ranked(plan, trials)
        ],
    }


def _ranked(plan: SweepPlan, trials: Sequence[Trial]) -> list[Trial]:
    return ranking(list(trials), is_minimized=plan.is_minimized)


def _row(plan: SweepPlan, trial: Trial, keys: list[str], *, is_best: bool) -> tuple[object, ...]:
    names = [name for name, _ in plan.run_names(trial.number)]
    shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    values = (trial.settings[key] for key in keys)
    value = trial.value if trial.state is not TrialState.PRUNED else f"{trial.value:.4g} when stopped"
    return BEST if is_best else "", trial.number, trial.state, value, *values, shown
