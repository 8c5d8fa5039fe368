"""How a policy is judged."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from palaestra.config.base import Frozen
from palaestra.config.suites import SimulationConfig, demand_differences, demand_name


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
            demand_name(name, "a simulation")
        return simulations

    @model_validator(mode="after")
    def _no_two_are_the_same(self) -> EvaluationConfig:
        demand_differences(self.simulations, self.episodes, self.seed)
        return self
