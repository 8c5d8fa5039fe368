"""Starting from the weights of an earlier checkpoint, and from the features that they know by name.

The environment may call the same features by other ids, or have more of them. The policy keeps its own ids; features
that are new to it get ids that were free, so that it can learn them. Where there is none free they stay masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError
from palaestra.policies.build import build_policy
from palaestra.policies.features import adopt_features

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.config.policy import PolicyConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.agent import Agent


@dataclass(frozen=True)
class WarmStart:
    interface: EnvInterface  # of the policy, as its checkpoint has it
    checkpoint: str = ""  # RUN:EPOCH; empty: of this very run
    weights: dict[str, Tensor] | None = None  # None: they are loaded later, with all else of this very run
    policy: str = ""  # as the checkpoint's configuration calls it


def build_agent(config: PolicyConfig, env: EnvInterface, origin: WarmStart | None) -> Agent:
    """A fresh policy for the environment, or one that speaks the origin's language and begins with its weights."""
    if origin is None:
        return build_policy(config, env)
    known = origin.interface
    agent = build_policy(config, adopt_features(known, env) if known.features else known)
    if origin.weights is not None:
        _load(agent, origin.weights, origin)
    return agent.playing_in(env)


def _load(agent: Agent, weights: dict[str, Tensor], origin: WarmStart) -> None:
    if problem := _difference(weights, agent.state_dict()):
        raise UsageError(
            f"The weights of initial_weights={origin.checkpoint} do not fit this run's policy: {problem}.",
            f"They were trained with policy={origin.policy}; give policy.* the same settings, normalisers included.",
        )
    agent.load_state_dict(weights)


def _difference(saved: dict[str, Tensor], wanted: dict[str, Tensor]) -> str:
    """In a sentence, with the first example of each kind; empty when every tensor has its place and shape."""
    reshaped = [name for name in wanted if name in saved and saved[name].shape != wanted[name].shape]
    parts = [
        f"{name} has the shape {list(saved[name].shape)} in the checkpoint and {list(wanted[name].shape)} here"
        for name in reshaped[:1]
    ]
    missing = [name for name in wanted if name not in saved]
    unknown = [name for name in saved if name not in wanted]
    parts += [f"the checkpoint lacks {name}" for name in missing[:1]]
    parts += [f"there is no {name} here" for name in unknown[:1]]
    count = len(reshaped) + len(missing) + len(unknown)
    further = f" ({count} tensors differ)" if count > len(parts) else ""
    return f"{', '.join(parts)}{further}" if parts else ""
