"""What torch holds of a training: the network, and everything else that is made of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor
from torch.nn.utils import vector_to_parameters

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.ppo.kickstart import Teacher
from palaestra.algorithms.ppo.update import stretch_of
from palaestra.core.seeds import draw_seed, global_seed
from palaestra.policies.device import memory_on
from palaestra.policies.warm_start import Origin, build_agent

if TYPE_CHECKING:
    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory
    from palaestra.training.draft import Draft


@dataclass
class Learned:
    agent: Agent
    optimizer: FlatOptimizer
    memory: Memory  # each [B, …]
    reward_sums: Tensor  # [B] discounted, for scaling rewards
    sampler: Generator  # draws actions
    stretch: int  # steps learned through memory at once; 1 without memory
    teacher: Teacher | None = None


def make_learned(
    config: TrainConfig,
    interface: EnvInterface,
    env_count: int,
    device: torch.device,
    group: Group,
    draft: Draft | None = None,
    teacher: Agent | None = None,
    origin: Origin | None = None,
) -> Learned:
    """Every rank has the same weights, and dice of its own. A draft's weights are taken as they are by now."""
    torch.set_num_threads(1)  # how many there are must not reach the last bits of the first weights
    torch.manual_seed(config.seed)
    agent = build_agent(config.policy, interface, origin)
    if draft is not None:
        vector_to_parameters(torch.from_numpy(draft.numbers["values"]), agent.parameters())
        # As if nothing was drawn: a capture made before torch came says so.
        torch.manual_seed(global_seed(config.seed, group.rank))
    agent = agent.to(device)
    torch.set_num_threads(config.torch_threads)
    sampler = Generator(device)
    sampler.manual_seed(draw_seed(config.seed, "actions", group.rank))
    is_shared = device.type == "cpu" and config.ppo.optimizer.kind == "adam"  # the native engine works in it
    return Learned(
        agent=agent,
        optimizer=FlatOptimizer(
            agent, config.ppo.optimizer, config.ppo.regularize, draft.numbers if draft and is_shared else None
        ),
        memory=memory_on(agent.initial_memory(env_count), device),
        reward_sums=torch.zeros(env_count, device=device),
        sampler=sampler,
        stretch=stretch_of(agent, config.ppo),
        teacher=None
        if teacher is None
        else Teacher(teacher.to(device), interface, env_count, draw_seed(config.seed, "teacher", group.rank)),
    )
