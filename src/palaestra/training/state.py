"""Everything that decides how training continues, in one place.

`capture` and `restore` are complete: a run that was killed and restored ends with the same bytes as one that was not.
Leaving out any entry of `capture` makes tests/training/test_state.py fail.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.algorithms.base import TORCH_ENGINE, Algorithm, Progress
from palaestra.algorithms.group import ALONE, Group
from palaestra.core.errors import DamagedFile
from palaestra.core.lazy_import import lazy_import
from palaestra.core.seeds import draw_seed, global_seed
from palaestra.envs.build import make_vector_envs
from palaestra.policies.roles import policy_for
from palaestra.training.curriculum import Curriculum
from palaestra.training.engines.choose import build_ppo, with_engine_of
from palaestra.training.replay_memory import refuse_large_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.warm_start import WarmStart
    from palaestra.training.engines import off_policy_builders
else:
    torch = lazy_import("torch")
    off_policy_builders = lazy_import("palaestra.training.engines.off_policy_builders")


@dataclass
class TrainingState:
    config: TrainConfig
    envs: VectorEnvs
    algorithm: Algorithm
    curriculum: Curriculum | None = None
    group: Group = ALONE
    iteration: int = 0
    env_steps: int = 0

    @property
    def progress(self) -> Progress:
        return Progress(self.iteration, self.env_steps, self.config.total_steps)

    def use_envs(self, envs: VectorEnvs) -> None:
        """From the next step on: the same environments, wrapped so that they can be watched, or no longer."""
        self.envs = self.algorithm.envs = envs

    def capture(self) -> dict[str, Any]:
        """Basic containers and tensors only, copied: the caller may write them while training continues.

        Before torch is imported there are arrays instead of tensors; see `serialization`.
        """
        self.algorithm.export_env_state()
        envs = self.envs.capture()
        curriculum = None if self.curriculum is None else self.curriculum.capture()
        # A third-party environment may just have imported torch; from here on nothing does, so that all parts agree.
        return {
            "iteration": self.iteration,
            "env_steps": self.env_steps,
            "algorithm": self.algorithm.name,
            **self.algorithm.capture(),
            "envs": serialization.encode_arrays(envs),
            "global_random": serialization.global_random_state(global_seed(self.config.seed, self.group.rank)),
            "curriculum": curriculum,
        }

    def restore(self, saved: dict[str, Any], load_rows: Callable[[ReplayBuffer], bool] = lambda _buffer: False) -> None:
        """Continue from `saved`. The policy's weights are loaded separately, from the checkpoint's model file.

        `load_rows` fills the replay buffer, if there is one, with the rows that `saved` goes with; where it returns
        False, training goes on without them.
        """
        try:
            self.iteration = int(saved["iteration"])
            self.env_steps = int(saved["env_steps"])
            self.algorithm = with_engine_of(self.algorithm, engine_of(saved))
            self.algorithm.restore(saved)
            buffer = self.algorithm.replay_buffer
            if buffer is not None and not load_rows(buffer):
                self.algorithm.clear_buffer()
            if self.curriculum is not None:
                self.curriculum.restore(saved["curriculum"])
            if saved["envs"] is None:  # new episodes, other than those that the run started with
                self.algorithm.reset_envs(own_env_seeds(self.config, self.group, self.iteration))
            else:
                self.envs.restore(serialization.decode_arrays(saved["envs"]))
            serialization.set_global_random_state(saved["global_random"])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise DamagedFile(
                f"This trainer state does not fit this run: {type(error).__name__}: {error}.",
                "Continue from another checkpoint, or start a new run.",
            ) from error


def engine_of(saved: dict[str, Any]) -> str:
    """Which engine made a capture; captures that do not say are older than the native engine."""
    return str(saved.get("engine", TORCH_ENGINE))


def new_training_state(
    config: TrainConfig, group: Group = ALONE, teacher: Agent | None = None, warm_start: WarmStart | None = None
) -> TrainingState:
    """The state before the first step; a pure function of the configuration and of the rank in its group.

    Every rank starts with the same weights; environments and random generators are its own.
    """
    seed_global_random(config.seed)
    curriculum = _new_curriculum(config, group)
    envs = make_vector_envs(config.env, config.curriculum, config.env_count, curriculum)
    config = config.model_copy(update={"policy": policy_for(config, envs.interface)})
    refuse_large_buffer(config, envs.interface, group.local_rank + 1, group.world_size)
    seeds = own_env_seeds(config, group)
    if config.algorithm == "ppo":
        algorithm = build_ppo(config, envs, seeds, group, teacher, warm_start)
    else:
        algorithm = off_policy_builders.build_off_policy(config, envs, seeds, group, warm_start)
    if not group.is_leader:  # from here on, what a network draws (dropout) differs from rank to rank
        seed_global_random(global_seed(config.seed, group.rank))
    return TrainingState(config, envs, algorithm, curriculum, group)


def _new_curriculum(config: TrainConfig, group: Group) -> Curriculum | None:
    if not config.curriculum.tasks:
        return None
    return Curriculum(config.curriculum, config.env_count, draw_seed(config.seed, "tasks", group.rank))


def seed_global_random(seed: int) -> None:
    """Of torch only where it is imported; where that happens later, building the tensors seeds it."""
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
    count = config.env_count
    return env_seeds(config.seed, count * (group.rank + 1), iteration)[-count:]
