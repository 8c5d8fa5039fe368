"""Everything that decides how training goes on, in one place.

`capture` and `restore` are complete: a run that was killed and restored ends with the same bytes as one that was not.
Leaving out any entry of `capture` makes tests/training/test_state.py fail.
"""

from __future__ import annotations

import random
import sys
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.algorithms.buffers.rollout_buffer import Tape
from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.torch_dice import seeded_state
from palaestra.core.errors import DamagedFile
from palaestra.core.lazy_import import lazy_import
from palaestra.core.seeds import draw_seed, global_seed
from palaestra.envs.build import make_vector_envs
from palaestra.policies.shipped import with_chosen_network
from palaestra.training.curriculum import Curriculum
from palaestra.training.draft import Draft, draft_network
from palaestra.training.engines.base import TORCH_NAME
from palaestra.training.engines.choose import choose_engine, engine_to_go_on_with
from palaestra.training.graphics import is_surely_cpu

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from numpy.typing import NDArray
    from torch import Generator, Tensor

    from palaestra.algorithms.optimizers import FlatOptimizer
    from palaestra.algorithms.ppo.kickstart import Teacher
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector import VectorEnvs
    from palaestra.policies import device as devices
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory
    from palaestra.policies.warm_start import Origin
    from palaestra.training import learned as learned_parts
    from palaestra.training.engines.base import Engine
    from palaestra.training.learned import Learned
else:
    torch = lazy_import("torch")
    devices = lazy_import("palaestra.policies.device")
    learned_parts = lazy_import("palaestra.training.learned")


@dataclass
class TrainingState:
    config: TrainConfig
    envs: VectorEnvs
    tape: Tape
    make_learned: Callable[[], Learned]
    dice: int  # seed of the native engine's actions; its draws follow from it and from where they are used
    shuffler: np.random.Generator  # orders minibatches
    draft: Draft | None = None  # of a network that is known without torch: where the native engine works
    curriculum: Curriculum | None = None
    group: Group = ALONE
    began_with: str = ""  # RUN:EPOCH of the checkpoint that the first weights came from
    engine: Engine = field(init=False)
    iteration: int = 0
    env_steps: int = 0

    @cached_property
    def learned(self) -> Learned:
        """What is made of tensors, made when it is first asked for: torch is not imported before.

        A native engine that works in a draft's memory goes on there, and the tensors are views of it.
        """
        return self.make_learned()

    def have_tensors(self) -> None:
        """Now, for whoever would need them at once anyway."""
        _ = self.learned

    @property
    def interface(self) -> EnvInterface:
        """Of the policy, which may know other features than the environment has."""
        return self.agent.interface if self.draft is None else self.envs.interface

    @property
    def stretch(self) -> int:
        return self.learned.stretch if self.draft is None else 1

    @property
    def agent(self) -> Agent:
        return self.learned.agent

    @property
    def policy(self) -> Agent | dict[str, NDArray[np.float32]]:
        """To be saved: the agent, or before torch has come the weights of its state_dict."""
        return self.draft.weights() if self.draft and not serialization.has_torch() else self.agent

    @property
    def optimizer(self) -> FlatOptimizer:
        return self.learned.optimizer

    @property
    def sampler(self) -> Generator:
        return self.learned.sampler

    @property
    def teacher(self) -> Teacher | None:
        return self.learned.teacher

    @property
    def memory(self) -> Memory:
        return self.learned.memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self.learned.memory = memory

    @property
    def reward_sums(self) -> Tensor:
        return self.learned.reward_sums

    @reward_sums.setter
    def reward_sums(self, sums: Tensor) -> None:
        self.learned.reward_sums = sums

    def capture(self) -> dict[str, Any]:
        """Plain containers and tensors only, copied: the caller may write them while training goes on.

        Before torch has come there are arrays instead of tensors; see `plain`.
        """
        self.engine.export_env_state()
        envs = self.envs.capture()
        curriculum = None if self.curriculum is None else self.curriculum.capture()
        # A stranger's environment may just have imported torch; from here on nobody does, so that all parts agree.
        return {
            "iteration": self.iteration,
            "env_steps": self.env_steps,
            "engine": self.engine.name,
            **(
                self._capture_draft(self.draft)
                if self.draft and not serialization.has_torch()
                else self._capture_learned()
            ),
            "tape": self.tape.capture(),
            "dice": self.dice,
            "shuffler": serialization.generator_state(self.shuffler),
            "envs": serialization.to_plain(envs),
            "global_random": serialization.global_random_state(global_seed(self.config.seed, self.group.rank)),
            "curriculum": curriculum,
        }

    def _capture_learner(self) -> dict[str, Any]:
        if self.draft and not serialization.has_torch():
            return self._capture_draft(self.draft)
        return self._capture_learned()

    def _capture_learned(self) -> dict[str, Any]:
        return {
            "optimizer": deepcopy(self.optimizer.capture()),
            "memory": {name: part.cpu().clone() for name, part in self.memory.items()},
            "reward_sums": self.reward_sums.cpu().clone(),
            "sampler": self.sampler.get_state(),
            "teacher": None if self.teacher is None else self.teacher.capture(),
        }

    def _capture_draft(self, draft: Draft) -> dict[str, Any]:
        """What `learned` would say if it were made now: only Adam's memory has moved since the run began."""
        adam = {"exp_avg": "mean", "exp_avg_sq": "spread", "step_count": "step_count"}
        return {
            "optimizer": {name: draft.numbers[own].copy() for name, own in adam.items()},
            "memory": {},
            "reward_sums": np.zeros(self.envs.count, np.float32),
            "sampler": seeded_state(draw_seed(self.config.seed, "actions", self.group.rank)),
            "teacher": None,
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
            serialization.set_generator_state(self.shuffler, saved["shuffler"])
            if self.curriculum is not None:
                self.curriculum.restore(saved["curriculum"])
            if self.teacher is not None:
                self.teacher.restore(saved["teacher"])
            self._restore_play(saved)
            self.engine = engine_to_go_on_with(self, engine_of(saved))
            self.engine.invalidate()
            serialization.set_global_random_state(saved["global_random"])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise DamagedFile(
                f"This trainer state does not fit this run: {type(error).__name__}: {error}.",
                "Continue from another checkpoint, or start a new run.",
            ) from error

    def _restore_play(self, saved: dict[str, Any]) -> None:
        if saved["envs"] is None:  # these environments begin anew, with other episodes than the run began with
            self.envs.reset(own_env_seeds(self.config, self.group, self.iteration), self.tape.rows[0])
            return
        self.envs.restore(serialization.from_plain(saved["envs"]))
        self.tape.restore(saved["tape"])
        self.memory = {name: part.to(self.tape.device, copy=True) for name, part in saved["memory"].items()}


def engine_of(saved: dict[str, Any]) -> str:
    """Which engine made a capture; those that do not say it are from before there was another one than torch."""
    return str(saved.get("engine", TORCH_NAME))


def new_training_state(
    config: TrainConfig, group: Group = ALONE, teacher: Agent | None = None, origin: Origin | None = None
) -> TrainingState:
    """The state before the first step; a pure function of the configuration and of the rank in its group.

    Every rank begins with the same weights; environments and dice are its own. A teacher comes ready to act.
    """
    device = None if is_surely_cpu(config.device) else devices.choose_device(config.device, group.local_rank)
    seed_global_random(config.seed)
    curriculum = _new_curriculum(config, group)
    envs = make_vector_envs(config.env, config.curriculum, config.ppo.env_count, curriculum)
    interface = envs.interface
    config = config.model_copy(update={"policy": with_chosen_network(config.policy, interface)})
    draft = draft_network(config.policy, interface, draw_seed(config.seed, "weights")) if origin is None else None
    tape = Tape(interface.observation_space, config.ppo.horizon, envs.count, device)

    def make_learned() -> Learned:
        return learned_parts.make_learned(config, interface, envs.count, tape.device, group, draft, teacher, origin)

    state = TrainingState(
        config=config,
        envs=envs,
        tape=tape,
        make_learned=make_learned,
        dice=draw_seed(config.seed, "dice", group.rank),
        shuffler=np.random.default_rng(draw_seed(config.seed, "minibatches", group.rank)),
        draft=draft,
        curriculum=curriculum,
        group=group,
        began_with="" if origin is None else origin.checkpoint,
    )
    may_wait = draft is not None and "torch" not in sys.modules
    if not may_wait:
        state.have_tensors()  # refuses a bad network
    envs.reset(own_env_seeds(config, group), tape.rows[0])
    if not group.is_leader:  # from here on, what a network draws (dropout) differs from rank to rank
        seed_global_random(global_seed(config.seed, group.rank))
    state.engine = choose_engine(state)
    if state.engine.name == TORCH_NAME:
        state.have_tensors()
    return state


def _new_curriculum(config: TrainConfig, group: Group) -> Curriculum | None:
    if not config.curriculum.tasks:
        return None
    return Curriculum(config.curriculum, config.ppo.env_count, draw_seed(config.seed, "tasks", group.rank))


def seed_global_random(seed: int) -> None:
    """Also torch's, where it is there; where it comes later, `make_learned` seeds it."""
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        torch.manual_seed(seed)


def env_seeds(seed: int, count: int, iteration: int = 0) -> list[int]:
    """One seed per row. Hashed, so that runs with neighbouring seeds share no environment."""
    drawn = np.random.SeedSequence([seed, iteration, 0xE]).generate_state(count)
    return [int(value) for value in drawn]


def own_env_seeds(config: TrainConfig, group: Group, iteration: int = 0) -> list[int]:
    """Those of this rank: 2 ranks of n environments have the seeds that 1 of 2n has."""
    count = config.ppo.env_count
    return env_seeds(config.seed, count * (group.rank + 1), iteration)[-count:]
