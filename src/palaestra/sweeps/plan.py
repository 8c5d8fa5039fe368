"""A sweep as it was asked for, made complete and checked against the ordinary configuration before anything starts."""

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
from palaestra.sweeps.draw import grid_settings, random_settings
from palaestra.sweeps.order import digest, flatten
from palaestra.sweeps.results import SCORE, check_metric
from palaestra.sweeps.space import Choices, Parameter, Range, parse_parameter

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

JUDGEMENTS = (10, 5)  # at most and at least so many evaluations in a trial, where nobody said how many


@dataclass(frozen=True)
class SweepPlan:
    config: SweepConfig  # complete: name, method and number of trials are decided
    parameters: tuple[Parameter, ...]
    fixed: dict[str, Any]  # dotted key -> value
    listed: tuple[dict[str, Any], ...]  # settings of all trials, where they are known beforehand

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
        """Everything that a trial's run sets, dotted; where the score decides, evaluations are arranged for."""
        settings = {**self.fixed, **tried}
        if self.config.metric != SCORE or "evaluate_interval" in settings:
            return settings
        config = resolve_training(self.config.recipe, nest(settings))
        return settings if config.evaluate_interval else {**settings, "evaluate_interval": judging_interval(config)}

    def example(self) -> TrainConfig:
        """What a trial needs of a machine, by the first one that can be."""
        tried = self.listed[0] if self.listed else {one.key: one.ends[0] for one in self.parameters}
        try:
            return resolve_training(self.config.recipe, nest({**self.fixed, **tried}))
        except UsageError:  # first values that do not go together
            return find_recipe(self.config.recipe).config if self.config.recipe else TrainConfig()

    def run_names(self, number: int) -> list[tuple[str, int | None]]:
        """Name and seed of each run of a trial; without seeds, one with its `seed` as set."""
        base = f"{self.name}-t{number}"
        return [(f"{base}-s{seed}", seed) for seed in self.config.seeds] or [(base, None)]


def plan_sweep(asked: SweepConfig) -> SweepPlan:
    """Refuses here, with the key and what would be right, whatever some trial could stumble over."""
    check_metric(asked.metric)
    parameters, fixed = _split(asked)
    if not parameters:
        raise UsageError("There is nothing to try: no key has several values.", "For example ppo.gamma=0.98,0.99.")
    _refuse_values(asked.recipe, parameters, fixed)
    parameters = tuple(_whole_where_wanted(one) for one in parameters)
    if fixed.get("evaluate_interval") == 0 and asked.metric == SCORE:
        raise UsageError("metric=score needs evaluations, and evaluate_interval=0 has none.", "Try metric=return.")
    method = _method(asked, parameters)
    if method == "grid":
        listed = grid_settings(parameters)
    else:
        listed = random_settings(parameters, asked.sampler_seed, asked.trials) if method == "random" else ()
    _refuse_sizes(asked, method, len(listed))
    count = len(listed) if listed else asked.trials or DEFAULT_TRIALS
    named = {"name": asked.name or _default_name(asked), "method": method, "trials": count}
    plan = SweepPlan(asked.model_copy(update=named), parameters, fixed, listed)
    for trial_name, _ in plan.run_names(MAX_TRIALS):
        check_name(trial_name)
    _refuse_combinations(plan)
    return plan


def judging_interval(config: TrainConfig) -> int:
    """Iterations between evaluations, so that there are five to ten and the last comes as late as possible."""
    iterations = math.ceil(config.total_steps / config.steps_per_iteration)
    most, least = JUDGEMENTS
    shortest = math.ceil(iterations / most)
    intervals = range(shortest, max(shortest, iterations // least) + 1)
    return min(intervals, key=lambda interval: (iterations % interval, interval))


def _split(asked: SweepConfig) -> tuple[tuple[Parameter, ...], dict[str, Any]]:
    """What is tried, and what is the same in all trials."""
    parameters, fixed = [], flatten(asked.settings)
    for key, value in asked.parameters.items():
        parameter = parse_parameter(key, value)
        if parameter is None or (isinstance(parameter, Choices) and len(parameter.values) == 1):
            raise UsageError(f"'{key}: {value}' is one value, not several.", "It belongs under 'settings'.")
        parameters.append(parameter)
    nest({**fixed, **asked.parameters})  # two words for one thing
    if overlap := [key for key in asked.parameters if key in fixed]:
        raise UsageError(f"'{overlap[0]}' is both tried and set.", "Keep one of them.")
    return tuple(parameters), fixed


def _refuse_values(recipe: str, parameters: tuple[Parameter, ...], fixed: dict[str, Any]) -> None:
    """Every value by itself; combinations are looked at when they are known."""
    found = dict.fromkeys(_complaints(recipe, fixed))
    for parameter in parameters:
        for end in parameter.ends:
            found |= dict.fromkeys(_complaints(recipe, {**fixed, parameter.key: end}))
    lines = list(found)
    if len(lines) == 1:
        raise UsageError(*lines[0])
    if lines:
        text = "\n".join(f"  - {message} {hint}".rstrip() for message, hint in lines)
        raise UsageError(f"{len(lines)} settings cannot be used:\n{text}")


def _complaints(recipe: str, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with single keys, not with how they go together."""
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


def _method(asked: SweepConfig, parameters: tuple[Parameter, ...]) -> str:
    if asked.method != "auto":
        return asked.method
    is_listed = all(isinstance(one, Choices) or one.count is not None for one in parameters)
    if not is_listed:
        return "random"
    size = math.prod(len(one.points()) for one in parameters)
    return "grid" if asked.trials is None or asked.trials >= size else "random"


def _refuse_sizes(asked: SweepConfig, method: str, size: int) -> None:
    if method == "grid" and asked.trials is not None and asked.trials < size:
        raise UsageError(
            f"The grid has {size} points, and trials={asked.trials} is fewer.", "Leave trials out, or method=random."
        )
    if method == "random" and asked.trials is not None and asked.trials > size:
        raise UsageError(
            f"There are only {size} different trials, and trials={asked.trials} was asked for.", "Try method=grid."
        )


def _refuse_combinations(plan: SweepPlan) -> None:
    for number, tried in enumerate(plan.listed, start=1):
        try:
            plan.settings_of(tried)
            resolve_training(plan.config.recipe, nest({**plan.fixed, **tried}))
        except UsageError as error:
            said = ", ".join(f"{key}={value}" for key, value in tried.items())
            raise UsageError(f"Trial {number} ({said}) cannot be: {error.message}", error.hint) from error


def _default_name(asked: SweepConfig) -> str:
    """The same for the same request but for its length, so that the same command again goes on."""
    return f"{asked.recipe or 'sweep'}-{digest(asked.model_dump(mode='json', exclude={'name', 'trials'}))}"
