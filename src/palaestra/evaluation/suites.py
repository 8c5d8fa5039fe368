"""Which simulations a policy is judged in: its run's own, a recipe's, a plugin's, or those of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.config.evaluation import EvaluationConfig, SimulationConfig
from palaestra.config.recipes.registry import find_recipe, recipe_names
from palaestra.config.resolve import resolve_config
from palaestra.core import plugins
from palaestra.core.errors import NotFound, PalaestraError, UsageError, did_you_mean
from palaestra.core.evaluation import DEFAULT
from palaestra.evaluation.overrides import apply_overrides, playable_interface
from palaestra.runs.files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.config.env import EnvConfig
    from palaestra.core.spaces import EnvInterface

GROUP = "suites"  # parts of apps: an EvaluationConfig, or a mapping with its keys
FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Simulation:
    """One environment in full, with nothing left to look up."""

    name: str
    category: str
    env: EnvConfig
    episodes: int | None  # None: as many as the suite says
    seed: int | None


@dataclass(frozen=True)
class Suite:
    name: str
    settings: EvaluationConfig  # what holds for every simulation that does not say otherwise
    simulations: tuple[Simulation, ...]

    def judges_like(self, other: Suite) -> bool:
        """The same simulations, however many episodes of each: then scores can be compared."""
        return [(one.name, one.env) for one in self.simulations] == [(one.name, one.env) for one in other.simulations]


def suite_of(name: str, settings: EvaluationConfig, env: Mapping[str, Any]) -> Suite:
    """The simulations of `settings`, laid over `env`; without any, one in `env` itself."""
    asked = settings.simulations or {DEFAULT: SimulationConfig()}
    simulations = tuple(
        Simulation(key, one.category, apply_overrides(env, {"env": one.env}), one.episodes, one.seed)
        for key, one in asked.items()
    )
    suite = Suite(name, settings, simulations)
    _demand_differences(suite)
    return suite


def find_suite(word: str, env: Mapping[str, Any]) -> Suite:
    """What `suite=WORD` means; a recipe brings its own environment, everything else is laid over `env`."""
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
    raise NotFound(f"No suite is called '{word}'.", hint)


def refuse_unplayable(suite: Suite, interface: EnvInterface, trained_in: EnvConfig) -> None:
    """Before a training begins, not at its first judgement; that it can play what it is trained in is known."""
    for one in suite.simulations:
        if one.env != trained_in:
            try:
                playable_interface(one.env, interface)
            except PalaestraError as error:
                error.message = f"The simulation '{one.name}': {error.message}"
                raise


def _with_simulations(word: str, content: Any) -> EvaluationConfig:
    """What may stand under `evaluation:` of a configuration; nobody asks for a suite in which nothing is played."""
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


def _demand_differences(suite: Suite) -> None:
    """Once more, now that it is known what is laid over what: `{}` and `{id: …}` may come to the same."""
    seen: list[tuple[str, Any]] = []
    for one in suite.simulations:
        seed = suite.settings.seed if one.seed is None else one.seed
        played = (one.env, one.episodes or suite.settings.episodes, seed)
        twin = next((name for name, what in seen if what == played), "")
        if twin:
            raise UsageError(
                f"The simulations '{twin}' and '{one.name}' of '{suite.name}' are the same in this environment.",
                "Let them differ, or keep one of them.",
            )
        seen.append((one.name, played))
