"""Which network. `policy=mlp` is short for `policy.graph=mlp`."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from palaestra.config.base import Frozen


class PolicyConfig(Frozen):
    graph: str | None = Field(None, description="a policy that Palaestra knows by name (see 'palaestra policies')")
    module: str | None = Field(None, description="your own torch class, as package.module:Class")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="settings of that policy; unknown ones are refused by it"
    )
    normalize_observations: bool = Field(False, description="running mean and variance, kept in the checkpoint")
    normalize_returns: bool = Field(False, description="scale rewards by the spread of returns, kept in the checkpoint")

    @model_validator(mode="before")
    @classmethod
    def _a_bare_name_is_a_graph(cls, value: Any) -> Any:
        return {"graph": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _exactly_one_kind(self) -> PolicyConfig:
        if self.graph is not None and self.module is not None:
            raise ValueError("give policy.graph or policy.module, not both")
        if self.graph is None and self.module is None:
            return self.model_copy(update={"graph": "mlp"})
        return self
