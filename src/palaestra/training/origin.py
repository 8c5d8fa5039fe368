"""What a training goes on from: weights of an earlier checkpoint, and the features that they know by name.

The environment may call the same features by other ids, or have more of them. The policy keeps its own ids; features
that are new to it get ids that were free, so that it can learn them. Where there is none free they stay masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.contracts.errors import UsageError
from palaestra.policies.build import build_policy
from palaestra.policies.features import adopt_features

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.config.policy import PolicyConfig
    from palaestra.contracts.spaces import EnvInterface
    from palaestra.policies.agent import Agent


@dataclass(frozen=True)
class Origin:
    interface: EnvInterface  # of the policy, as its checkpoint has it
    checkpoint: str = ""  # RUN:EPOCH; empty: of this very run
    weights: dict[str, Tensor] | None = None  # None: they are loaded later, with all else of this very run
    policy: str = ""  # as the checkpoint's configuration calls it


def build_agent(config: PolicyConfig, env: EnvInterface, origin: Origin | None) -> Agent:
    """A fresh policy for the environment, or one that speaks the origin's language and begins with its weights."""
    if origin is None:
        return build_policy(config, env)
    known = origin.interface
    agent = build_policy(config, adopt_features(known, env) if known.features else known)
    if origin.weights is not None:
        _load(agent, origin.weights, origin)
    return agent.playing_in(env)


def _load(agent: Agent, weights: dict[str, Tensor], origin: Origin) -> None:
    try:
        agent.load_state_dict(weights)
    except RuntimeError as error:
        problem = " ".join(str(error).split())[:300]
        raise UsageError(
            f"The weights of initial_weights={origin.checkpoint} do not fit this run's policy: {problem}",
            f"They were trained with policy={origin.policy}; give policy.* the same settings, normalisers included.",
        ) from error
