"""Suites: the simulations that a policy is evaluated in, from its run, a recipe, a plugin, or a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.env import EnvConfig
from palaestra.config.evaluation import EvaluationConfig, SimulationConfig
from palaestra.config.recipes.registry import find_recipe, recipe_names
from palaestra.config.resolve import resolve_config
from palaestra.core import plugins
from palaestra.core.errors import NotFound, PalaestraError, UsageError, did_you_mean
from palaestra.core.evaluation import DEFAULT
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.policies.features import refuse_other_spaces
from palaestra.runs.files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.core.spaces import EnvInterface

GROUP = "suites"  # parts of apps: an EvaluationConfig, or a mapping with its keys
FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Simulation:
    """One environment with all its settings."""

    name: str
    category: str
    env: EnvConfig
    episodes: int | None  # None: as the suite has it
    seed: int | None


@dataclass(frozen=True)
class Suite:
    name: str
    settings: EvaluationConfig  # defaults of the simulations
    simulations: tuple[Simulation, ...]

    def has_same_simulations(self, other: Suite) -> bool:
        """Whether scores can be compared: the numbers of episodes may differ."""
        return [(one.name, one.env) for one in self.simulations] == [(one.name, one.env) for one in other.simulations]


def suite_of(name: str, settings: EvaluationConfig, env: Mapping[str, Any]) -> Suite:
    """The simulations of `settings`, each applied to `env`; without any, one in `env` itself."""
    simulation_configs = settings.simulations or {DEFAULT: SimulationConfig()}
    simulations = tuple(
        Simulation(key, one.category, apply_overrides(env, {"env": one.env}), one.episodes, one.seed)
        for key, one in simulation_configs.items()
    )
    suite = Suite(name, settings, simulations)
    _refuse_duplicates(suite)
    return suite


def find_suite(word: str, env: Mapping[str, Any]) -> Suite:
    """The suite of `suite=WORD`: a recipe has its own environment, everything else is applied to `env`."""
    if word == DEFAULT:
        return suite_of(word, EvaluationConfig(), env)
    if word.endswith(FILES):
        return suite_of(Path(word).stem, _with_simulations(word, read_yaml(Path(word).expanduser())), env)
    if word in plugins.names(GROUP):
        return suite_of(word, _with_simulations(word, plugins.load(GROUP, word)), env)
    if word in recipe_names():
        config = find_recipe(word).config
        return suite_of(word, config.evaluation, config.env.model_dump(mode="json"))
    known = [DEFAULT, *plugins.names(GROUP), *recipe_names()]
    hint = did_you_mean(word, known) or "A recipe's name is a suite, and so is a FILE.yaml."
    raise NotFound(f"No suite named '{word}'.", hint)


def refuse_unplayable(suite: Suite, interface: EnvInterface, trained_in: EnvConfig) -> None:
    """Refuses unplayable simulations before a training begins, not at its first evaluation."""
    for one in suite.simulations:
        if one.env != trained_in:
            try:
                playable_interface(one.env, interface)
            except PalaestraError as error:
                error.message = f"The simulation '{one.name}': {error.message}"
                raise


def _with_simulations(word: str, content: Any) -> EvaluationConfig:
    """Reads the keys of `evaluation:` in a configuration; a suite needs at least one simulation."""
    if isinstance(content, EvaluationConfig):
        settings = content
    elif isinstance(content, dict):
        settings = resolve_config(EvaluationConfig, None, content)
    else:
        raise UsageError(f"The suite '{word}' is {type(content).__name__}, not a mapping.", _example())
    if not settings.simulations:
        raise UsageError(f"The suite '{word}' is empty: it has no simulations.", _example())
    return settings


def _example() -> str:
    return "Write for example simulations: {short: {category: speed, env: {max_episode_steps: 100}}}"


def _refuse_duplicates(suite: Suite) -> None:
    """Compares complete environments: `{}` and `{id: …}` may be the same after the defaults are applied."""
    earlier: list[tuple[str, Any]] = []
    for one in suite.simulations:
        seed = suite.settings.seed if one.seed is None else one.seed
        played = (one.env, one.episodes or suite.settings.episodes, seed)
        twin = next((name for name, what in earlier if what == played), "")
        if twin:
            raise UsageError(
                f"The simulations '{twin}' and '{one.name}' of '{suite.name}' are the same in this environment.",
                "Change one of them, or remove it.",
            )
        earlier.append((one.name, played))


SECTIONS = ("env",)


def apply_overrides(saved_env: Mapping[str, Any], overrides: Mapping[str, Any]) -> EnvConfig:
    """The checkpoint's environment with `env.…` settings applied; a different id starts without the old kwargs."""
    for section in overrides:
        if section not in SECTIONS:
            hint = did_you_mean(section, SECTIONS) or "It can change env.id, env.kwargs.NAME and env.max_episode_steps."
            raise UsageError(f"An evaluation has no setting '{section}'.", hint)
    changes = overrides.get("env", {})
    if not isinstance(changes, dict):
        raise UsageError(
            f"Invalid value for env: {changes!r} (must be a mapping).", "Write env.id=…, env.kwargs.NAME=…"
        )
    unknown = [name for name in changes if name not in EnvConfig.model_fields]
    if unknown:
        hint = did_you_mean(unknown[0], EnvConfig.model_fields) or f"Known: {', '.join(EnvConfig.model_fields)}."
        raise UsageError(f"'env.{unknown[0]}' is not a setting.", hint)
    base = saved_env if changes.get("id", saved_env["id"]) == saved_env["id"] else {}
    merged = {**base, **changes}
    if isinstance(changes.get("kwargs"), dict):
        merged["kwargs"] = {**base.get("kwargs", {}), **changes["kwargs"]}
    try:
        return EnvConfig.model_validate(merged)
    except ValidationError as error:
        problems = "; ".join(
            f"env.{'.'.join(map(str, problem['loc']))}={problem['input']!r}: {problem['msg']}"
            for problem in error.errors()
        )
        raise UsageError(f"Invalid settings of the environment: {problems}.") from error


def playable_interface(config: EnvConfig, policy: EnvInterface) -> EnvInterface:
    """The spaces of the environment; refuses one whose spaces the policy does not have."""
    env = make_env(config)
    try:
        found = interface_of(env)
    finally:
        env.close()
    try:
        refuse_other_spaces(policy, found)
    except UsageError as error:
        raise UsageError(f"This policy does not fit '{config.id}'. {error.message}", error.hint) from error
    return found
