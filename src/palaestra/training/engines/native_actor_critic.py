"""What SAC and TD3 have in common when the compiled engine computes them (native/engine/actor_critic_learner.hpp)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.lazy_import import lazy_import
from palaestra.training.engines.native_off_policy import NativeOffPolicy, optimizer_capture
from palaestra.training.engines.network_plan import Activation, Unsupported
from palaestra.training.engines.off_policy_plan import (
    adam_arrays,
    compiled_adam,
    compiled_config,
    compiled_space,
    normalizer_of,
    plan_vector,
    refuse_unfit_network,
    replay_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from palaestra.algorithms.critics import Critics
    from palaestra.algorithms.optimizers import FlatOptimizer
    from palaestra.config.sac import SacConfig
    from palaestra.config.td3 import Td3Config
    from palaestra.policies import critics as policy_critics
    from palaestra.policies.agent import Agent
    from palaestra.training.engines import policy_plan
    from palaestra.training.engines.network_plan import NetworkPlan
    from palaestra.training.engines.numpy_network import NumpyNetwork

    Memory = dict[str, NDArray[np.float32]]  # as `FlatOptimizer.adam_memory` calls them, with an entry `target`
else:
    policy_critics = lazy_import("palaestra.policies.critics")
    policy_plan = lazy_import("palaestra.training.engines.policy_plan")


@dataclass(frozen=True)
class NumpyActorCritic:
    """The networks of SAC and TD3 where they are known without torch; every memory has an entry `target`."""

    actor: NumpyNetwork
    critics: NumpyNetwork
    temperature: Memory

    def shared(self) -> dict[str, Memory]:
        """As `build_tensors` of either algorithm takes them."""
        return {"actor": self.actor.numbers, "critics": self.critics.numbers, "temperature": self.temperature}


def numpy_actor_critic(actor: NumpyNetwork, critics: NumpyNetwork, temperature: float) -> NumpyActorCritic:
    """Targets are equal to what they follow at first. `temperature`: SAC's at first."""
    for network in (actor, critics):
        network.numbers["target"] = network.numbers["values"].copy()
    names = ("gradient", "mean", "spread")
    memory = {
        "values": np.full(1, np.log(temperature), np.float32),
        **{name: np.zeros(1, np.float32) for name in names},
    }
    return NumpyActorCritic(actor, critics, {**memory, "step_count": np.zeros((), np.float32)})


class NativeActorCritic(NativeOffPolicy):
    """Part of an algorithm: `plan_networks` and `attach` follow its own `__init__`."""

    actor_plan: NetworkPlan
    critic_plan: NetworkPlan
    actor_memory: Memory
    critic_memory: Memory

    def plan_known_networks(self, networks: NumpyActorCritic) -> None:
        self.network = networks.actor
        self.actor_plan, self.critic_plan = networks.actor.plan, networks.critics.plan
        self.actor_memory, self.critic_memory = networks.actor.numbers, networks.critics.numbers

    def plan_networks(self, agent: Agent, optimizer: FlatOptimizer, critics: Critics) -> None:
        """Of torch's modules, whose memory the engine then works in."""
        self.network = None
        self.actor_plan = policy_plan.plan_policy(agent, optimizer.flat)
        self.actor_memory = memory_of(optimizer)
        self.critic_memory = {**memory_of(critics.optimizer), "target": critics.target.flat.numpy()}
        first = next(iter(critics.networks))
        if not isinstance(first, policy_critics.GraphCritic):
            raise Unsupported(f"a critic of class {type(first).__name__}")
        size = critics.optimizer.flat.numel() // len(critics.networks)
        self.critic_plan = policy_plan.plan_critic(first, agent.interface, critics.optimizer.flat[:size])

    def common_parts(
        self, compiled: ModuleType, settings: SacConfig | Td3Config, critics: int, kernels: str
    ) -> dict[str, Any]:
        """What the compiled learners of both take."""
        interface = self.envs.interface
        vector = plan_vector(interface.observation_space)
        for plan in (self.actor_plan, self.critic_plan):
            refuse_unfit_network(plan)
        return {
            "actor": self.actor_plan,
            "critic": self.critic_plan,
            "network_input": vector,
            "action_space": compiled_space(compiled, interface.action_space),
            "actor_parameters": adam_arrays(self.actor_memory),
            "critic_parameters": adam_arrays(self.critic_memory),
            "critic_targets": self.critic_memory["target"],
            "buffer": replay_arrays(self.buffer),
            "normalizer": normalizer_of(self.agent, vector) if self.config.policy.normalize_observations else None,
            "config": compiled_config(compiled, self.config, settings, self.group),
            "adam": compiled_adam(compiled, settings.optimizer),
            "settings": compiled.ActorCriticConfig(
                critics=critics,
                policy_interval=settings.policy_interval,
                n_step=settings.n_step,
                gamma=settings.gamma,
                tau=settings.tau,
            ),
            "kernels": kernels,
        }

    def capture_critics(self) -> dict[str, NDArray[np.float32] | dict[str, NDArray[np.float32]]]:
        """What `Critics.capture` gives, while torch is not imported."""
        return {
            "critics": self.critic_memory["values"].copy(),
            "critic_target": self.critic_memory["target"].copy(),
            "critic_optimizer": optimizer_capture(self.critic_memory),
        }


def memory_of(optimizer: FlatOptimizer) -> Memory:
    return {name: part.numpy() for name, part in optimizer.adam_memory().items()}


def ending_with_tanh(plan: NetworkPlan) -> NetworkPlan:
    """The plan of a deterministic actor: its distribution applies tanh, the engine's network has it at the end."""
    layers = [
        replace(layer, activation=Activation.TANH) if layer.target == plan.action_slot else layer
        for layer in plan.layers
    ]
    return replace(plan, layers=layers)


def copy_target(memory: Mapping[str, NDArray[np.float32]]) -> None:
    np.copyto(memory["target"], memory["values"])
