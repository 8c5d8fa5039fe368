"""How a policy is judged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator, model_validator

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
    def _validate_category(cls, category: str) -> str:
        return validate_name(category, "a category")

    @field_validator("env", mode="before")
    @classmethod
    def _refuse_unknown_env_keys(cls, env: Any) -> Any:
        if isinstance(env, str):  # as everywhere, a bare name is an id
            return {"id": env}
        unknown = [name for name in env if name not in EnvConfig.model_fields] if isinstance(env, dict) else []
        if unknown:
            known = ", ".join(EnvConfig.model_fields)
            raise ValueError(f"an environment has no '{unknown[0]}'; known are {known}")
        return env


def validate_name(name: str, what: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"'{name}' is no name of {what}; use up to 40 letters, digits and _ . + -")
    return name


def refuse_duplicates(simulations: Mapping[str, SimulationConfig], episodes: int, seed: int) -> None:
    """Two names for one and the same simulation are a slip; `episodes` and `seed` stand in for those not given."""
    seen: list[tuple[str, Any]] = []
    for name, simulation in simulations.items():
        played = (simulation.env, simulation.episodes or episodes, seed if simulation.seed is None else simulation.seed)
        twin = next((other for other, what in seen if what == played), "")
        if twin:
            raise ValueError(f"the simulations '{twin}' and '{name}' are the same; let them differ, or keep one")
        seen.append((name, played))


class EvaluationConfig(Frozen):
    episodes: int = Field(default=20, ge=1, description="episodes per simulation")
    seed: int = Field(default=1_000_000, ge=0, description="seed of the first episode; the others follow")
    deterministic: bool = Field(default=True, description="most likely action instead of a sampled one")
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="steps after which an episode is stopped; default: the environment's time limit, else 10,000",
    )
    timeout_seconds: float = Field(
        default=3600.0, gt=0, description="a judgement beside a training that takes longer is given up"
    )
    simulations: dict[str, SimulationConfig] = Field(
        default_factory=dict,
        description="name: {category, env, episodes, seed} of each; empty: one in the environment trained in",
    )

    @field_validator("simulations")
    @classmethod
    def _names_fit_into_metrics(cls, simulations: dict[str, SimulationConfig]) -> dict[str, SimulationConfig]:
        for name in simulations:
            validate_name(name, "a simulation")
        return simulations

    @model_validator(mode="after")
    def _refuse_duplicate_simulations(self) -> EvaluationConfig:
        refuse_duplicates(self.simulations, self.episodes, self.seed)
        return self
