"""Search methods (grid, random, Optuna) and the pruning of trials."""

from __future__ import annotations

import itertools
import math
import random
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from palaestra.config.sweep import DEFAULT_TRIALS, MAX_TRIALS
from palaestra.core.errors import MissingExtra, UsageError
from palaestra.sweeps.space import Choices

if TYPE_CHECKING:
    from palaestra.sweeps.plan import SweepPlan
    from palaestra.sweeps.space import Parameter
    from palaestra.sweeps.store import Trial


class Method(Protocol):
    def next_settings(self, trials: list[Trial]) -> dict[str, Any] | None:
        """The settings of the next trial, given all trials so far in order; None: there are no more."""
        ...


class ListedSettings:
    def __init__(self, settings: tuple[dict[str, Any], ...]) -> None:
        self._settings = settings

    def next_settings(self, trials: list[Trial]) -> dict[str, Any] | None:
        return self._settings[len(trials)] if len(trials) < len(self._settings) else None


def open_method(plan: SweepPlan) -> Method:
    if plan.config.method != "optuna":
        return ListedSettings(plan.listed)
    if not has_optuna():
        raise MissingExtra("method=optuna", "sweep")
    method: Method = _optuna_method(plan)
    return method


def importances(plan: SweepPlan, trials: list[Trial]) -> dict[str, float]:
    """The importance of each key, where Optuna is installed and there are enough trials."""
    found: dict[str, float] = _optuna_method(plan).importances(trials) if has_optuna() else {}
    return found


def has_optuna() -> bool:
    return find_spec("optuna") is not None


def _optuna_method(plan: SweepPlan) -> Any:
    module = import_module("palaestra.sweeps.optuna_search")  # only where it is asked for: Optuna is an extra
    return module.OptunaMethod(plan.parameters, plan.config.sampler_seed, is_minimized=plan.is_minimized)


Settings = dict[str, Any]
MAX_DRAWS = 200  # until new settings are found; then the space counts as exhausted


def grid_settings(parameters: tuple[Parameter, ...]) -> tuple[Settings, ...]:
    """The last parameter changes fastest."""
    columns = [parameter.points() for parameter in parameters]
    size = math.prod(map(len, columns))
    if size > MAX_TRIALS:
        raise UsageError(
            f"The grid has {size:,} points, more than the limit of {MAX_TRIALS:,} trials.", "Try method=random."
        )
    keys = [parameter.key for parameter in parameters]
    return tuple(dict(zip(keys, values, strict=True)) for values in itertools.product(*columns))


def random_settings(parameters: tuple[Parameter, ...], seed: int, count: int | None) -> tuple[Settings, ...]:
    """All different; a longer list begins with the shorter one. Fewer than `count` when there are no more."""
    generator = random.Random(f"palaestra sweep {seed}")  # noqa: S311  reproducible, not secret
    drawn: list[Settings] = []
    known: set[str] = set()
    wanted = min(DEFAULT_TRIALS if count is None else count, size_of(parameters))
    while len(drawn) < wanted:
        fresh = next(
            (one for one in (_draw(parameters, generator) for _ in range(MAX_DRAWS)) if repr(one) not in known), None
        )
        if fresh is None:
            break
        known.add(repr(fresh))
        drawn.append(fresh)
    return tuple(drawn)


def size_of(parameters: tuple[Parameter, ...]) -> float:
    """How many different settings there are; infinite for a real number."""
    return math.prod(
        len(one.values) if isinstance(one, Choices) else one.high - one.low + 1 if one.is_whole else math.inf
        for one in parameters
    )


def _draw(parameters: tuple[Parameter, ...], generator: random.Random) -> Settings:
    return {parameter.key: parameter.at(generator.random()) for parameter in parameters}


RUNGS = (2, 4, 8)  # tenths of a trial's steps
MIN_TRIALS = 4  # at a rung before a trial is pruned there


def is_worse_half(trial: Trial, trials: list[Trial], *, is_minimized: bool) -> bool:
    """Successive halving: whether the trial is below the median at its last rung. Equal values are not worse."""
    rung = max((rung for rung in RUNGS if rung in trial.curve), default=None)
    if rung is None:
        return False
    values = [one.curve[rung] for one in trials if rung in one.curve]
    own = trial.curve[rung]
    better = sum(value < own if is_minimized else value > own for value in values)
    return len(values) >= MIN_TRIALS and better >= len(values) - len(values) // 2
