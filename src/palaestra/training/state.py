"""Everything that decides how training goes on, in one place.

`capture` and `restore` are complete: a run that was killed and restored ends with the same bytes as one that was not.
Leaving out any entry of `capture` makes tests/training/test_state.py fail.
"""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator, Tensor

from palaestra.contracts.errors import DamagedFile
from palaestra.envs.build import make_vector_envs
from palaestra.training import plain
from palaestra.training.curriculum import Curriculum
from palaestra.training.device import choose_device, memory_on
from palaestra.training.engines.choose import choose_engine, engine_to_go_on_with
from palaestra.training.engines.torch_engine import TORCH
from palaestra.training.group import ALONE, Group
from palaestra.training.kickstart import Teacher
from palaestra.training.optim import FlatOptimizer
from palaestra.training.origin import Origin, build_agent
from palaestra.training.ppo import stretch_of
from palaestra.training.tape import Tape

if TYPE_CHECKING:
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector import VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory
    from palaestra.training.engines.base import Engine


@dataclass
class TrainingState:
    config: TrainConfig
    agent: Agent
    envs: VectorEnvs
    optimizer: FlatOptimizer
    tape: Tape
    memory: Memory  # each [B, …]
    reward_sums: Tensor  # [B] discounted, for scaling rewards
    sampler: Generator  # draws actions
    dice: int  # seed of the native engine's actions; its draws follow from it and from where they are used
    shuffler: np.random.Generator  # orders minibatches
    stretch: int  # steps learned through memory at once; 1 without memory
    curriculum: Curriculum | None = None
    teacher: Teacher | None = None
    group: Group = ALONE
    engine: Engine = TORCH
    began_with: str = ""  # RUN:EPOCH of the checkpoint that the first weights came from
    iteration: int = 0
    env_steps: int = 0

    def capture(self) -> dict[str, Any]:
        """Plain containers and tensors only, copied: the caller may write them while training goes on."""
        self.engine.hand_back(self)
        return {
            "iteration": self.iteration,
            "env_steps": self.env_steps,
            "engine": self.engine.name,
            "optimizer": deepcopy(self.optimizer.capture()),
            "tape": self.tape.capture(),
            "memory": {name: part.cpu().clone() for name, part in self.memory.items()},
            "reward_sums": self.reward_sums.cpu().clone(),
            "sampler": self.sampler.get_state(),
            "dice": self.dice,
            "shuffler": plain.generator_state(self.shuffler),
            "envs": plain.to_plain(self.envs.capture()),
            "global_random": plain.global_random_state(),
            "curriculum": None if self.curriculum is None else self.curriculum.capture(),
            "teacher": None if self.teacher is None else self.teacher.capture(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from `saved`. The agent's weights are loaded apart, from the checkpoint's model file."""
        try:
            self.iteration = int(saved["iteration"])
            self.env_steps = int(saved["env_steps"])
            self.optimizer.restore(saved["optimizer"])
            self.reward_sums = saved["reward_sums"].to(self.tape.device, copy=True)
            self.sampler.set_state(saved["sampler"])
            self.dice = int(saved.get("dice", self.dice))  # states from before there was an engine lack it
            plain.set_generator_state(self.shuffler, saved["shuffler"])
            if self.curriculum is not None:
                self.curriculum.restore(saved["curriculum"])
            if self.teacher is not None:
                self.teacher.restore(saved["teacher"])
            self._restore_play(saved)
            self.engine = engine_to_go_on_with(self, engine_of(saved))
            self.engine.forget()
            plain.set_global_random_state(saved["global_random"])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise DamagedFile(
                f"This trainer state does not fit this run: {type(error).__name__}: {error}.",
                "Continue from another checkpoint, or start a new run.",
            ) from error

    def _restore_play(self, saved: dict[str, Any]) -> None:
        if saved["envs"] is None:  # these environments begin anew, with other episodes than the run began with
            self.envs.reset(own_env_seeds(self.config, self.group, self.iteration), self.tape.rows[0])
            return
        self.envs.restore(plain.from_plain(saved["envs"]))
        self.tape.restore(saved["tape"])
        self.memory = {name: part.to(self.tape.device, copy=True) for name, part in saved["memory"].items()}


def engine_of(saved: dict[str, Any]) -> str:
    """Which engine made a capture; those that do not say it are from before there was another one than torch."""
    return str(saved.get("engine", TORCH.name))


def new_training_state(
    config: TrainConfig, group: Group = ALONE, teacher: Agent | None = None, origin: Origin | None = None
) -> TrainingState:
    """The state before the first step; a pure function of the configuration and of the rank in its group.

    Every rank begins with the same weights; environments and dice are its own. A teacher comes ready to act.
    """
    device = choose_device(config.device, group.local_rank)
    seed_global_random(config.seed)
    curriculum = _new_curriculum(config, group)
    envs = make_vector_envs(config.env, config.curriculum, config.ppo.env_count, curriculum)
    agent = build_agent(config.policy, envs.interface, origin).to(device)
    tape = Tape(envs.interface.observation_space, config.ppo.horizon, envs.count, device)
    envs.reset(own_env_seeds(config, group), tape.rows[0])
    if not group.is_leader:  # from here on, what a network draws (dropout) differs from rank to rank
        seed_global_random(_draw_seed(config.seed, "global", group.rank))
    sampler = Generator(device)
    sampler.manual_seed(_draw_seed(config.seed, "actions", group.rank))
    state = TrainingState(
        config=config,
        agent=agent,
        envs=envs,
        optimizer=FlatOptimizer(agent, config.ppo.optimizer, config.ppo.regularize),
        tape=tape,
        memory=memory_on(agent.initial_memory(envs.count), device),
        reward_sums=torch.zeros(envs.count, device=device),
        sampler=sampler,
        dice=_draw_seed(config.seed, "dice", group.rank),
        shuffler=np.random.default_rng(_draw_seed(config.seed, "minibatches", group.rank)),
        stretch=stretch_of(agent, config.ppo),
        curriculum=curriculum,
        teacher=None
        if teacher is None
        else Teacher(teacher.to(device), envs.interface, envs.count, _draw_seed(config.seed, "teacher", group.rank)),
        group=group,
        began_with="" if origin is None else origin.checkpoint,
    )
    state.engine = choose_engine(state)
    return state


def _new_curriculum(config: TrainConfig, group: Group) -> Curriculum | None:
    if not config.curriculum.tasks:
        return None
    return Curriculum(config.curriculum, config.ppo.env_count, _draw_seed(config.seed, "tasks", group.rank))


def seed_global_random(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def env_seeds(seed: int, count: int, iteration: int = 0) -> list[int]:
    """One seed per row. Hashed, so that runs with neighbouring seeds share no environment."""
    drawn = np.random.SeedSequence([seed, iteration, 0xE]).generate_state(count)
    return [int(value) for value in drawn]


def own_env_seeds(config: TrainConfig, group: Group, iteration: int = 0) -> list[int]:
    """Those of this rank: 2 ranks of n environments have the seeds that 1 of 2n has."""
    count = config.ppo.env_count
    return env_seeds(config.seed, count * (group.rank + 1), iteration)[-count:]


def _draw_seed(seed: int, purpose: str, rank: int = 0) -> int:
    """The leader's are those of a process alone."""
    words = [seed, *purpose.encode(), *([rank] if rank else [])]
    return int(np.random.SeedSequence(words).generate_state(1)[0])
