"""What a policy is judged in: named simulations, each a variation of one environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from palaestra.config.base import Frozen
from palaestra.config.env import EnvConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = re.compile(r"[A-Za-z0-9_.+-]{1,40}")  # it becomes a part of metrics' and of files' names


class SimulationConfig(Frozen):
    category: str = Field(default="default", description="what it is a test of, for tables; any name")
    env: dict[str, Any] = Field(
        default_factory=dict, description="id, kwargs, max_episode_steps, laid over the environment trained in"
    )
    episodes: int | None = Field(default=None, ge=1, description="default: evaluation.episodes")
    seed: int | None = Field(default=None, ge=0, description="of the first episode; default: evaluation.seed")

    @field_validator("category")
    @classmethod
    def _a_category_is_a_name(cls, category: str) -> str:
        return demand_name(category, "a category")

    @field_validator("env", mode="before")
    @classmethod
    def _only_what_an_environment_has(cls, env: Any) -> Any:
        if isinstance(env, str):  # as everywhere, a bare name is an id
            return {"id": env}
        unknown = [name for name in env if name not in EnvConfig.model_fields] if isinstance(env, dict) else []
        if unknown:
            known = ", ".join(EnvConfig.model_fields)
            raise ValueError(f"an environment has no '{unknown[0]}'; known are {known}")
        return env


def demand_name(name: str, what: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"'{name}' is no name of {what}; use up to 40 letters, digits and _ . + -")
    return name


def demand_differences(simulations: Mapping[str, SimulationConfig], episodes: int, seed: int) -> None:
    """Two names for one and the same simulation are a slip; `episodes` and `seed` stand in for those not given."""
    seen: list[tuple[str, Any]] = []
    for name, simulation in simulations.items():
        played = (simulation.env, simulation.episodes or episodes, seed if simulation.seed is None else simulation.seed)
        twin = next((other for other, what in seen if what == played), "")
        if twin:
            raise ValueError(f"the simulations '{twin}' and '{name}' are the same; let them differ, or keep one")
        seen.append((name, played))
