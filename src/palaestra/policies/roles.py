"""What each algorithm's policy network computes, the action spaces it takes, and how large `mlp` is for it."""

from __future__ import annotations

from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, SpaceSpec
from palaestra.policies.shipped import with_chosen_network

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.config.policy import PolicyConfig, Role
    from palaestra.config.train import TrainConfig

ROLES: Mapping[str, Role] = MappingProxyType(  # by algorithm
    {
        "ppo": "actor_critic",
        "pqn": "action_values",
        "dqn": "action_values",
        "sac": "stochastic_actor",
        "td3": "deterministic_actor",
    }
)

RELU_120_84 = {"hidden": [120, 84], "activation": "relu"}
RELU_256_256 = {"hidden": [256, 256], "activation": "relu"}

# Settings of the graph `mlp` that the user leaves out, by algorithm; PPO's are those that the graph states.
MLP_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "pqn": {**RELU_120_84, "layer_norm": True, "gain": 2**0.5},  # orthogonal first weights, as in CleanRL's script
        "dqn": RELU_120_84,
        "sac": RELU_256_256,
        "td3": RELU_256_256,
    }
)


def policy_for(config: TrainConfig, interface: EnvInterface) -> PolicyConfig:
    """The network of this run in full: graph, role and sizes. Refuses action spaces that the algorithm cannot take."""
    refuse_unfit_space(config.algorithm, interface.action_space)
    return with_role(config, with_chosen_network(config.policy, interface))


def with_role(config: TrainConfig, policy: PolicyConfig) -> PolicyConfig:
    """With what follows from the algorithm. Applied again it changes nothing."""
    algorithm = config.algorithm
    settings = dict(policy.settings)
    if policy.graph == "mlp":
        settings = {**MLP_SETTINGS.get(algorithm, {}), **settings}
    if algorithm == "dqn" and config.dqn.dueling:
        settings = with_dueling_head(policy, settings)
    return policy.model_copy(update={"role": ROLES[algorithm], "settings": settings})


def with_dueling_head(policy: PolicyConfig, settings: dict[str, Any]) -> dict[str, Any]:
    if policy.module is not None:
        raise UsageError(
            f"dqn.dueling=true needs a graph, and policy.module={policy.module} is a class.",
            "Let its forward combine value and advantages, and set dqn.dueling=false.",
        )
    head = settings.get("action", {})
    return {**settings, "action": {**head, "dueling": True}} if isinstance(head, dict) else settings


def algorithms_for(space: SpaceSpec) -> list[str]:
    """The algorithms that take this action space."""
    return [algorithm for algorithm, role in ROLES.items() if role_takes(role, space)]


def role_takes(role: Role, space: SpaceSpec) -> bool:
    match role:
        case "actor_critic":
            return True  # every action space that environments may have
        case "action_values":
            return isinstance(space, DiscreteSpec)
        case "stochastic_actor":
            return isinstance(space, DiscreteSpec) or is_bounded(space)
        case "deterministic_actor":
            return is_bounded(space)


def is_bounded(space: SpaceSpec) -> bool:
    return isinstance(space, BoxSpec) and all(isfinite(bound) for bound in (*space.low, *space.high))


def refuse_unfit_space(algorithm: str, space: SpaceSpec) -> None:
    role = ROLES[algorithm]
    if role_takes(role, space):
        return
    if role != "action_values" and isinstance(space, BoxSpec):
        raise UsageError(
            f"algorithm={algorithm} needs actions with finite bounds, and this environment's have none: "
            f"{_text(space)}.",
            f"Give the action space finite low and high, or take algorithm={' or '.join(algorithms_for(space))}.",
        )
    raise UsageError(
        f"algorithm={algorithm} cannot act in this environment, whose actions are {_text(space)}.",
        f"Algorithms for these actions: {', '.join(algorithms_for(space))}.",
    )


def _text(space: SpaceSpec) -> str:
    match space:
        case DiscreteSpec():
            return f"discrete, one of {space.count}"
        case BoxSpec():
            low, high = min(space.low), max(space.high)
            return f"continuous, {space.size} between {low:g} and {high:g}"
        case _:
            return "several discrete choices"
