"""What torch holds of a PPO training: the policy, and everything else that is made of tensors."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from torch.nn.utils import vector_to_parameters

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.ppo.kickstart import Teacher
from palaestra.algorithms.ppo.update import segment_length_of
from palaestra.core.seeds import draw_seed, global_seed
from palaestra.policies.device import memory_to_device
from palaestra.policies.warm_start import WarmStart, build_agent

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory


@dataclass
class PpoTensors:
    agent: Agent
    optimizer: FlatOptimizer
    memory: Memory  # each [B, …]
    reward_sums: Tensor  # [B] discounted, for scaling rewards
    sampler: Generator  # draws actions
    segment_length: int  # steps trained through memory at once; 1 without memory
    teacher: Teacher | None = None

    def reset_memory(self, env_count: int) -> None:
        self.memory = memory_to_device(self.agent.initial_memory(env_count), self.reward_sums.device)

    def capture(self) -> dict[str, Any]:
        """On the CPU, copied."""
        return {
            "optimizer": deepcopy(self.optimizer.capture()),
            "memory": {name: part.cpu().clone() for name, part in self.memory.items()},
            "reward_sums": self.reward_sums.cpu().clone(),
            "sampler": self.sampler.get_state(),
            "teacher": None if self.teacher is None else self.teacher.capture(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        device = self.reward_sums.device
        self.optimizer.restore(saved["optimizer"])
        self.memory = {name: part.to(device, copy=True) for name, part in saved["memory"].items()}
        self.reward_sums = saved["reward_sums"].to(device, copy=True)
        self.sampler.set_state(saved["sampler"])
        if self.teacher is not None:
            self.teacher.restore(saved["teacher"])


def build_tensors(
    config: TrainConfig,
    interface: EnvInterface,
    env_count: int,
    device: torch.device,
    group: Group,
    shared: Mapping[str, NDArray[np.float32]] | None = None,
    teacher: Agent | None = None,
    warm_start: WarmStart | None = None,
) -> PpoTensors:
    """Every rank has the same weights, and random generators of its own.

    `shared`: memory in which the native engine trains this network already, see `FlatOptimizer.adam_memory`; its
    weights are taken as they are by now.
    """
    torch.set_num_threads(1)  # how many there are must not reach the last bits of the first weights
    torch.manual_seed(config.seed)
    agent = build_agent(config.policy, interface, warm_start)
    if shared is not None:
        vector_to_parameters(torch.from_numpy(shared["values"]), agent.parameters())
        # As if nothing was drawn: a capture made before torch was imported says so.
        torch.manual_seed(global_seed(config.seed, group.rank))
    agent = agent.to(device)
    torch.set_num_threads(config.torch_threads)
    sampler = Generator(device)
    sampler.manual_seed(draw_seed(config.seed, "actions", group.rank))
    is_shared = device.type == "cpu" and config.ppo.optimizer.kind == "adam"  # the native engine works in it
    return PpoTensors(
        agent=agent,
        optimizer=FlatOptimizer(agent, config.ppo.optimizer, config.ppo.regularize, shared if is_shared else None),
        memory=memory_to_device(agent.initial_memory(env_count), device),
        reward_sums=torch.zeros(env_count, device=device),
        sampler=sampler,
        segment_length=segment_length_of(agent, config.ppo),
        teacher=None
        if teacher is None
        else Teacher(teacher.to(device), interface, env_count, draw_seed(config.seed, "teacher", group.rank)),
    )
