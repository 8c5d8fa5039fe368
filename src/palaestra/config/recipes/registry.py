"""A recipe: a named, typed, ready-to-run configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from palaestra.config.policy import PolicyConfig
from palaestra.core import plugins
from palaestra.core.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.config.train import TrainConfig


@dataclass(frozen=True)
class Recipe:
    summary: str  # one line for `palaestra recipes`
    config: TrainConfig
    extra: str = ""  # the extra it needs, e.g. "mujoco"
    variants: Mapping[str, TrainConfig] = field(default_factory=dict)  # settings for other algorithms, by their names

    @property
    def algorithms(self) -> list[str]:
        """Those that it has settings for, its own first."""
        return [self.config.algorithm, *self.variants]

    def config_for(self, algorithm: str) -> TrainConfig:
        """Its settings for an algorithm; for one that it does not know, its environment with that one's defaults."""
        if algorithm == self.config.algorithm:
            return self.config
        if algorithm in self.variants:
            return self.variants[algorithm]
        others = {"policy": PolicyConfig(), "algorithm": algorithm}
        return self.config.model_copy(update=others)


def variants(*configs: TrainConfig) -> dict[str, TrainConfig]:
    """Settings for further algorithms, as `Recipe.variants` takes them."""
    return {config.algorithm: config for config in configs}


def mlp(*hidden: int, activation: str = "relu") -> PolicyConfig:
    """Fully connected layers of these widths."""
    return PolicyConfig(graph="mlp", settings={"hidden": list(hidden), "activation": activation})


# extra of pyproject.toml -> the module it brings
EXTRA_MODULES = {
    "mujoco": "mujoco",
    "box2d": "Box2D",
    "atari": "ale_py",
    "minigrid": "minigrid",
    "multi": "pettingzoo",
    "wandb": "wandb",
    "onnx": "onnx",
    "hub": "huggingface_hub",
}


def find_recipe(name: str) -> Recipe:
    found = plugins.load("recipes", name)
    if not isinstance(found, Recipe):
        raise UsageError(f"The recipe '{name}' is a {type(found).__name__}, not a Recipe.", "Ask who wrote the plugin.")
    return found


def recipe_names() -> list[str]:
    return plugins.names("recipes")


def is_installed(extra: str) -> bool:
    """Whether what the extra brings can be imported; nothing is imported to find out."""
    return not extra or find_spec(EXTRA_MODULES.get(extra, extra)) is not None


def require_extra(name: str, recipe: Recipe) -> None:
    if not is_installed(recipe.extra):
        raise MissingExtra(f"The recipe '{name}'", recipe.extra)
