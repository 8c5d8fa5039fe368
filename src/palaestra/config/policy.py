"""Which network. `policy=mlp` is short for `policy.graph=mlp`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from palaestra.config.base import Frozen

AUTO = "auto"  # the network follows from the observation space
CHOSEN_NETWORKS = ("mlp", "cnn")  # what it stands for: vectors, images

Role = Literal["actor_critic", "action_values", "stochastic_actor", "deterministic_actor"]


class PolicyConfig(Frozen):
    shorthand: ClassVar[str] = "text"

    graph: str | None = Field(
        default=None,
        description="a policy by name, such as mlp, or a graph file ending in .yaml; auto: cnn for images, else mlp",
    )
    module: str | None = Field(default=None, description="your own torch class, as package.module:Class")
    role: Role = Field(default="actor_critic", description="what the network computes; follows from the algorithm")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="settings of that policy; unknown ones are refused by it"
    )
    normalize_observations: bool = Field(default=False, description="running mean and variance, kept in the checkpoint")
    normalize_returns: bool = Field(
        default=False, description="scale rewards by the spread of returns, kept in the checkpoint"
    )
    compile: bool = Field(default=False, description="run the network through torch.compile; what is saved stays plain")

    @classmethod
    def normalize_override(cls, override: Any, base: dict[str, Any]) -> Any:
        """Naming another network drops the former one and its settings, never the normalisers."""
        words = {"graph": override} if isinstance(override, str) else override
        if not isinstance(words, dict):
            return words
        for kind, other in (("graph", "module"), ("module", "graph")):
            if words.get(kind) is not None:
                is_same = words[kind] == base.get(kind) or (base.get(kind) == AUTO and words[kind] in CHOSEN_NETWORKS)
                if not is_same:
                    base["settings"] = {}
                base[other] = None
        return words

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_graph_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"graph": value}
        if isinstance(value, dict) and value.get("graph") is None and value.get("module") is None:
            return {**value, "graph": AUTO}
        return value

    @model_validator(mode="after")
    def _refuse_graph_with_module(self) -> PolicyConfig:
        if self.graph is not None and self.module is not None:
            raise ValueError("give policy.graph or policy.module, not both")
        return self

    def __str__(self) -> str:
        return self.graph or self.module or ""
