"""`train --from-trial best`: a fresh run with the settings that won."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import NotFound, UsageError
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.store import LATEST, SweepStore
from palaestra.sweeps.trial import best_of

if TYPE_CHECKING:
    from pathlib import Path

BEST = "best"


@dataclass(frozen=True)
class WarmStart:
    """Where settings come from."""

    trial: str  # "lr:3"
    recipe: str
    settings: dict[str, Any]  # dotted key -> value: what was the same in all trials, and what this one tried


def find_trial(runs_root: Path, selector: str, sweep: str = "") -> WarmStart:
    """`best`, `3`, `NAME:best` or `NAME:3`; without a name, the sweep that was touched last."""
    named, colon, which = selector.rpartition(":")
    if named and sweep and named != sweep:
        raise UsageError(f"'{selector}' names one sweep, sweep={sweep} another.", "Keep one of them.")
    if not colon and selector != BEST and not selector.isdigit():
        hint = "Write best, a trial's number, NAME:best or NAME:3."
        raise UsageError(f"No trial is selected by '{selector}'.", hint)
    directory = SweepStore(runs_root).find(named or sweep or LATEST)
    plan, trials = plan_sweep(directory.read_config()), directory.read_trials()
    if which == BEST:
        best = best_of(trials, is_minimized=plan.is_minimized)
        if best is None:
            raise NotFound(
                f"No trial of the sweep '{plan.name}' is finished.", f"'palaestra sweep show {plan.name}' tells more."
            )
        number = best.number
    elif which.isascii() and which.isdigit() and 1 <= int(which[:9]) <= len(trials):
        number = int(which)
    else:
        raise NotFound(f"The sweep '{plan.name}' has no trial '{which}'.", f"It has 1 to {len(trials)}, and best.")
    return WarmStart(f"{plan.name}:{number}", plan.config.recipe, {**plan.fixed, **trials[number - 1].settings})
