"""The plan of a sweep: its configuration, completed and validated before anything starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.errors import describe_errors
from palaestra.config.keys import list_keys
from palaestra.config.overrides import nest
from palaestra.config.recipes.registry import find_recipe
from palaestra.config.resolve import merge, resolve_training
from palaestra.config.sweep import DEFAULT_TRIALS, MAX_TRIALS, SweepConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.runs.identity import check_name
from palaestra.sweeps.methods import grid_settings, random_settings
from palaestra.sweeps.order import digest, flatten
from palaestra.sweeps.results import SCORE, check_metric
from palaestra.sweeps.space import Choices, Parameter, Range, parse_parameter

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

EVALUATIONS_PER_TRIAL = (10, 5)  # the most and the least in a trial without evaluate_interval


@dataclass(frozen=True)
class SweepPlan:
    config: SweepConfig  # with name, method and number of trials
    parameters: tuple[Parameter, ...]
    fixed: dict[str, Any]  # dotted key -> value
    listed: tuple[dict[str, Any], ...]  # settings of all trials, where the method knows them beforehand

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def trial_count(self) -> int:
        assert self.config.trials is not None, "a plan knows how many trials it has"
        return self.config.trials

    @property
    def is_minimized(self) -> bool:
        return self.config.direction == "minimize"

    def settings_of(self, tried: dict[str, Any]) -> dict[str, Any]:
        """All settings of a trial's run, dotted; with the metric `score`, evaluations are enabled."""
        settings = {**self.fixed, **tried}
        if self.config.metric != SCORE or "evaluate_interval" in settings:
            return settings
        config = resolve_training(self.config.recipe, nest(settings))
        return settings if config.evaluate_interval else {**settings, "evaluate_interval": evaluation_interval(config)}

    def example(self) -> TrainConfig:
        """The configuration of the first valid trial, for what a trial needs of a machine."""
        tried = self.listed[0] if self.listed else {one.key: one.ends[0] for one in self.parameters}
        try:
            return resolve_training(self.config.recipe, nest({**self.fixed, **tried}))
        except UsageError:  # the first values do not fit together
            return find_recipe(self.config.recipe).config if self.config.recipe else TrainConfig()

    def run_names(self, number: int) -> list[tuple[str, int | None]]:
        """Name and seed of each run of a trial; without seeds, one with its `seed` as set."""
        base = f"{self.name}-t{number}"
        return [(f"{base}-s{seed}", seed) for seed in self.config.seeds] or [(base, None)]


def plan_sweep(requested: SweepConfig) -> SweepPlan:
    """Completes and validates a sweep; refuses whatever would fail in one of its trials."""
    check_metric(requested.metric)
    parameters, fixed = _split(requested)
    if not parameters:
        raise UsageError("No key of the sweep has several values.", "For example: ppo.gamma=0.98,0.99")
    _refuse_values(requested.recipe, parameters, fixed)
    parameters = tuple(_whole_where_wanted(one) for one in parameters)
    if fixed.get("evaluate_interval") == 0 and requested.metric == SCORE:
        raise UsageError("metric=score needs evaluations, and evaluate_interval=0 has none.", "Try metric=return.")
    method = _method(requested, parameters)
    if method == "grid":
        listed = grid_settings(parameters)
    else:
        listed = random_settings(parameters, requested.sampler_seed, requested.trials) if method == "random" else ()
    _refuse_sizes(requested, method, len(listed))
    count = len(listed) if listed else requested.trials or DEFAULT_TRIALS
    named = {"name": requested.name or _default_name(requested), "method": method, "trials": count}
    plan = SweepPlan(requested.model_copy(update=named), parameters, fixed, listed)
    for trial_name, _ in plan.run_names(MAX_TRIALS):
        check_name(trial_name)
    _refuse_combinations(plan)
    return plan


def evaluation_interval(config: TrainConfig) -> int:
    """Iterations between evaluations, so that there are five to ten and the last comes as late as possible."""
    iterations = math.ceil(config.total_steps / config.steps_per_iteration)
    most, least = EVALUATIONS_PER_TRIAL
    shortest = math.ceil(iterations / most)
    intervals = range(shortest, max(shortest, iterations // least) + 1)
    return min(intervals, key=lambda interval: (iterations % interval, interval))


def _split(requested: SweepConfig) -> tuple[tuple[Parameter, ...], dict[str, Any]]:
    """The parameters, and the settings that are equal in all trials."""
    parameters, fixed = [], flatten(requested.settings)
    for key, value in requested.parameters.items():
        parameter = parse_parameter(key, value)
        if parameter is None or (isinstance(parameter, Choices) and len(parameter.values) == 1):
            raise UsageError(f"'{key}: {value}' is one value, not several.", "It belongs under 'settings'.")
        parameters.append(parameter)
    nest({**fixed, **requested.parameters})  # refuses two spellings of one key
    if overlap := [key for key in requested.parameters if key in fixed]:
        raise UsageError(f"'{overlap[0]}' is both a parameter and a setting.", "Remove one of them.")
    return tuple(parameters), fixed


def _refuse_values(recipe: str, parameters: tuple[Parameter, ...], fixed: dict[str, Any]) -> None:
    """Refuses single values that are invalid; combinations are checked later."""
    found = dict.fromkeys(_errors_of_keys(recipe, fixed))
    for parameter in parameters:
        for end in parameter.ends:
            found |= dict.fromkeys(_errors_of_keys(recipe, {**fixed, parameter.key: end}))
    lines = list(found)
    if len(lines) == 1:
        raise UsageError(*lines[0])
    if lines:
        text = "\n".join(f"  - {message} {hint}".rstrip() for message, hint in lines)
        raise UsageError(f"{len(lines)} invalid settings:\n{text}")


def _errors_of_keys(recipe: str, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """The errors of single keys, not of combinations."""
    base = find_recipe(recipe).config if recipe else TrainConfig()
    merged = merge(TrainConfig, base.model_dump(mode="python"), nest(settings))
    try:
        TrainConfig.model_validate(merged)
    except ValidationError as error:
        lines = zip(error.errors(include_url=False), describe_errors(TrainConfig, error), strict=True)
        return [line for details, line in lines if _is_of_one_key(details, settings)]
    return []


def _is_of_one_key(details: ErrorDetails, settings: dict[str, Any]) -> bool:
    path = ".".join(map(str, details["loc"]))
    is_inside = any(path == key or path.startswith(f"{key}.") for key in settings)
    return is_inside or details["type"] != "value_error"


def _whole_where_wanted(parameter: Parameter) -> Parameter:
    kinds = {key.path: key.type_text for key in list_keys(TrainConfig)}
    if isinstance(parameter, Range) and kinds.get(parameter.key, "").startswith("integer"):
        return replace(parameter, is_whole=True)
    return parameter


def _method(requested: SweepConfig, parameters: tuple[Parameter, ...]) -> str:
    if requested.method != "auto":
        return requested.method
    is_listed = all(isinstance(one, Choices) or one.count is not None for one in parameters)
    if not is_listed:
        return "random"
    size = math.prod(len(one.points()) for one in parameters)
    return "grid" if requested.trials is None or requested.trials >= size else "random"


def _refuse_sizes(requested: SweepConfig, method: str, size: int) -> None:
    if method == "grid" and requested.trials is not None and requested.trials < size:
        raise UsageError(
            f"The grid has {size} points, and trials={requested.trials} is fewer.",
            "Leave trials out, or method=random.",
        )
    if method == "random" and requested.trials is not None and requested.trials > size:
        raise UsageError(
            f"There are only {size} different trials, and trials={requested.trials} was asked for.", "Try method=grid."
        )


def _refuse_combinations(plan: SweepPlan) -> None:
    for number, tried in enumerate(plan.listed, start=1):
        try:
            plan.settings_of(tried)
            resolve_training(plan.config.recipe, nest({**plan.fixed, **tried}))
        except UsageError as error:
            settings = ", ".join(f"{key}={value}" for key, value in tried.items())
            raise UsageError(f"Trial {number} ({settings}) is invalid: {error.message}", error.hint) from error


def _default_name(requested: SweepConfig) -> str:
    """Equal for equal configurations whatever the number of trials, so that the same command resumes the sweep."""
    return f"{requested.recipe or 'sweep'}-{digest(requested.model_dump(mode='json', exclude={'name', 'trials'}))}"
