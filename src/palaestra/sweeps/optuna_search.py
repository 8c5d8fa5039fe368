"""Optuna's TPE as a function of the trials so far: equal trials and seed give equal suggestions, also after a crash.

A study is built from our own table for every suggestion; nothing of Optuna is stored on disk.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.samplers import TPESampler
from optuna.trial import TrialState as OptunaState

from palaestra.sweeps.methods import random_settings, size_of
from palaestra.sweeps.space import Choices
from palaestra.sweeps.store import Trial, TrialState

if TYPE_CHECKING:
    from palaestra.sweeps.space import Parameter

RANDOM_FIRST = 10  # trials before the sampler trusts what it has seen
REDRAWS = 20
STATES = {
    TrialState.RUNNING: OptunaState.RUNNING,
    TrialState.FINISHED: OptunaState.COMPLETE,
    TrialState.PRUNED: OptunaState.PRUNED,
    TrialState.FAILED: OptunaState.FAIL,
    TrialState.LOST: OptunaState.FAIL,
}


class OptunaMethod:
    def __init__(self, parameters: tuple[Parameter, ...], seed: int, *, is_minimized: bool) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._parameters = parameters
        self._seed = seed
        self._direction = "minimize" if is_minimized else "maximize"
        self._distributions = {parameter.key: _distribution(parameter) for parameter in parameters}

    def next_settings(self, trials: list[Trial]) -> dict[str, Any] | None:
        """None when all settings were tried: a repeated training has the same result."""
        seen = {repr(_ordered(trial.settings)) for trial in trials}
        if len(seen) >= size_of(self._parameters):
            return None
        for attempt in range(REDRAWS):
            suggested = self._suggest(trials, attempt)
            if repr(_ordered(suggested)) not in seen:
                return suggested
        unseen = random_settings(self._parameters, self._seed, len(seen) + 1)
        return next((one for one in unseen if repr(_ordered(one)) not in seen), None)

    def importances(self, trials: list[Trial]) -> dict[str, float]:
        """The share of each key in the difference between good and other trials; shares sum to 1."""
        finished = [trial for trial in trials if trial.state is TrialState.FINISHED]
        varied = [one.key for one in self._parameters if len({repr(trial.settings[one.key]) for trial in finished}) > 1]
        if len(finished) < RANDOM_FIRST or not varied:
            return {}
        with _quiet():
            study = self._study(finished, TPESampler(seed=0))
            found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(), params=varied)
        return {key: float(share) for key, share in found.items()}

    def _suggest(self, trials: list[Trial], attempt: int) -> dict[str, Any]:
        with _quiet():
            seed = (self._seed * 1_000_003 + len(trials) * 101 + attempt) % 2**32
            sampler = TPESampler(
                seed=seed, n_startup_trials=RANDOM_FIRST, multivariate=len(self._parameters) > 1, constant_liar=True
            )
            requested = self._study(trials, sampler).ask(self._distributions)
        return {
            parameter.key: _from_optuna(parameter, requested.params[parameter.key]) for parameter in self._parameters
        }

    def _study(self, trials: list[Trial], sampler: TPESampler) -> optuna.Study:
        study = optuna.create_study(direction=self._direction, sampler=sampler)
        for trial in trials:
            study.add_trial(self._as_optuna(trial))
        return study

    def _as_optuna(self, trial: Trial) -> optuna.trial.FrozenTrial:
        return optuna.trial.create_trial(
            state=STATES[trial.state],
            value=trial.value if trial.state is TrialState.FINISHED else None,
            params={one.key: _to_optuna(one, trial.settings[one.key]) for one in self._parameters},
            distributions=self._distributions,
            intermediate_values=trial.curve,
        )


def _distribution(parameter: Parameter) -> optuna.distributions.BaseDistribution:
    if isinstance(parameter, Choices):
        return CategoricalDistribution(tuple(range(len(parameter.values))))  # by index: values may have any type
    if parameter.is_whole:
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.is_log)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.is_log)


def _to_optuna(parameter: Parameter, value: Any) -> Any:
    return parameter.values.index(value) if isinstance(parameter, Choices) else value


def _from_optuna(parameter: Parameter, value: Any) -> Any:
    return parameter.values[value] if isinstance(parameter, Choices) else parameter.rounded(value)


def _ordered(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(settings.items())


def _quiet() -> warnings.catch_warnings:
    """Ignores warnings about experimental options of Optuna, which our version pins fix."""
    return warnings.catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning)
