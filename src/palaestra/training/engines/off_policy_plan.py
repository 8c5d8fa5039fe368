"""What the compiled learners of DQN, PQN, SAC and TD3 take beside a network, from the configuration and the buffers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.seeds import draw_seed
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec
from palaestra.training.engines.network_plan import InputKind, NormalizerPlan, Unsupported, plan_input

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.config.off_policy import OffPolicyConfig
    from palaestra.config.optimizer import OptimizerConfig
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import SpaceSpec
    from palaestra.policies.agent import Agent
    from palaestra.training.engines.network_plan import InputPlan, NetworkPlan

OTHER_NAMES = {"mean": "exp_avg", "spread": "exp_avg_sq"}  # of Adam's memory, in the compiled engine


def refuse_unfit(config: TrainConfig, optimizer: OptimizerConfig) -> None:
    """Settings that only torch supports; networks are checked where they are planned."""
    unfit = {
        "policy.compile=true": config.policy.compile,
        f"{config.algorithm}.optimizer={optimizer.kind}": optimizer.kind == "muon",
    }
    for setting, is_set in unfit.items():
        if is_set:
            raise Unsupported(setting)


def refuse_unfit_network(plan: NetworkPlan) -> None:
    if plan.cells or plan.tables:
        raise Unsupported("a network with memory or embedding tables")


def compiled_adam(compiled: ModuleType, config: OptimizerConfig, max_grad_norm: float | None = None) -> Any:
    return compiled.AdamConfig(
        beta1=config.beta1,
        beta2=config.beta2,
        epsilon=config.epsilon,
        weight_decay=config.weight_decay,
        is_rectified=config.kind == "radam",
        max_grad_norm=math.inf if max_grad_norm is None else max_grad_norm,
    )


def compiled_config(compiled: ModuleType, config: TrainConfig, settings: OffPolicyConfig, group: Group) -> Any:
    seeds = {
        f"{purpose}_seed": draw_seed(config.seed, purpose, group.rank)
        for purpose in ("exploration", "epsilon", "replay", "noise", "target_noise")
    }
    return compiled.OffPolicyConfig(batch_size=settings.batch_size, threads=config.torch_threads, **seeds)


def compiled_space(compiled: ModuleType, space: SpaceSpec) -> Any:
    match space:
        case DiscreteSpec():
            return compiled.ActionSpace(choices=space.count)
        case BoxSpec():
            low, high = np.array(space.low, np.float32), np.array(space.high, np.float32)
            half_width, middle = (
                np.broadcast_to((high - low) / 2, space.size),
                np.broadcast_to((high + low) / 2, space.size),
            )
            return compiled.ActionSpace(half_width=half_width.tolist(), middle=middle.tolist())
        case _:
            raise AssertionError("`policies.roles` refuses other action spaces")


def plan_vector(space: SpaceSpec) -> InputPlan:
    """Observations as one vector: those that are not are left to torch."""
    if isinstance(space, DictSpec):
        raise Unsupported("observations with named parts")
    return plan_input(space)


def replay_arrays(buffer: ReplayBuffer) -> dict[str, NDArray[Any]]:
    if "" not in buffer.blocks:
        raise Unsupported("observations that are stacks of frames")
    return {
        "observations": buffer.blocks[""],
        "actions": buffer.actions,
        "rewards": buffer.rewards,
        "ends": buffer.ends,
        "final_slots": buffer.final_slots,
        "finals": buffer.finals[""],
    }


def adam_arrays(memory: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """`FlatOptimizer.adam_memory` by the names of the compiled engine."""
    return {OTHER_NAMES.get(name, name): part for name, part in memory.items()}


def normalizer_of(agent: Agent, vector: InputPlan) -> NormalizerPlan | None:
    """Its arrays are those that the agent updates."""
    normalizer = agent.observation_normalizer
    if normalizer is None:
        return None
    assert vector.kind is InputKind.FLOATS, "the normalizer accepts nothing else"
    box: Any = normalizer.parts["part_"]
    return NormalizerPlan(box.shift.reshape(-1).numpy(), box.scale.reshape(-1).numpy(), box.clip)
