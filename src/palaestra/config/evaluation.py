"""How a policy is judged."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.base import Frozen


class EvaluationConfig(Frozen):
    episodes: int = Field(default=20, ge=1, description="episodes per evaluation")
    seed: int = Field(default=1_000_000, ge=0, description="seed of the first episode; the others follow")
    deterministic: bool = Field(default=True, description="most likely action instead of a sampled one")
