"""What PPO keeps between iterations, whichever engine computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.core.seeds import draw_seed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.ppo.tensors import PpoTensors
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import VectorEnvs

OLD_NAMES = {"rollout_buffer": "tape", "action_seed": "dice"}  # of entries in trainer states of version 0.1


class Ppo(ABC):
    """An `Algorithm` (see `palaestra.algorithms.base`) without the computation."""

    name = "ppo"
    engine: str
    replicated = frozenset({"optimizer"})
    replay_buffer = None

    def __init__(self, config: TrainConfig, envs: VectorEnvs, buffer: RolloutBuffer, group: Group) -> None:
        self.config = config
        self.envs = envs
        self.buffer = buffer
        self.group = group
        self.shuffler = np.random.default_rng(draw_seed(config.seed, "minibatches", group.rank))
        self.action_seed = draw_seed(config.seed, "dice", group.rank)  # the native engine's actions follow from it

    @property
    @abstractmethod
    def tensors(self) -> PpoTensors:
        """The policy and everything else that torch holds."""

    @abstractmethod
    def export_env_state(self) -> None: ...

    @abstractmethod
    def env_state_changed(self) -> None:
        """The environments were reset or restored: discard what the engine knows of them."""

    @abstractmethod
    def _capture_tensors(self) -> dict[str, Any]: ...

    def reset_envs(self, seeds: Sequence[int]) -> None:
        self.envs.reset(list(seeds), self.buffer.rows[0])
        self.buffer.starts[0] = True
        self.tensors.reset_memory(self.envs.count)
        self.env_state_changed()

    def clear_buffer(self) -> None:  # noqa: B027  not abstract: this is what it does
        """There is none."""

    def capture(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            **self._capture_tensors(),
            "rollout_buffer": self.buffer.capture(),
            "action_seed": self.action_seed,
            "shuffler": serialization.generator_state(self.shuffler),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.tensors.restore(saved)
        self.buffer.restore(_entry(saved, "rollout_buffer"))
        self.action_seed = int(_entry(saved, "action_seed", self.action_seed))
        serialization.set_generator_state(self.shuffler, saved["shuffler"])
        self.env_state_changed()


def _entry(saved: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Under its present or its old name; states from before there was a native engine have no seed of its actions."""
    return saved.get(name, saved.get(OLD_NAMES[name], default))
