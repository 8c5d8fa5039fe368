"""PPO computed by the native engine.

Importing torch takes longer than the first updates of a small network, so this implementation starts without it where
the network is known without it (`policy=mlp`): weights, gradients and Adam's moments are NumPy arrays that the engine
works in. The tensors of torch are views of the same memory, built when something first needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.algorithms.base import NATIVE_ENGINE, Iteration, Progress
from palaestra.algorithms.ppo.algorithm import Ppo
from palaestra.algorithms.serialization import seeded_torch_state
from palaestra.core.lazy_import import lazy_import
from palaestra.core.seeds import draw_seed
from palaestra.training.engines.native_engine import NativeEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.ppo.tensors import PpoTensors
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies import diagnostics
    from palaestra.policies.agent import Agent
    from palaestra.training.engines.numpy_network import NumpyNetwork
else:
    diagnostics = lazy_import("palaestra.policies.diagnostics")


class NativePpo(Ppo):
    engine = NATIVE_ENGINE

    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: RolloutBuffer,
        group: Group,
        tensors: Callable[[], PpoTensors],
        network: NumpyNetwork | None = None,
    ) -> None:
        """Raises Unsupported where the engine cannot do what torch would.

        `tensors` builds them on the first call and gives the same ones later. `network`: where it is known without
        torch.
        """
        super().__init__(config, envs, buffer, group)
        self.network = network
        self._tensors = tensors
        self.compute = NativeEngine(self)

    @property
    def description(self) -> str:
        return self.compute.description

    @property
    def tensors(self) -> PpoTensors:
        return self._tensors()

    @property
    def interface(self) -> EnvInterface:
        return self.tensors.agent.interface if self.network is None else self.envs.interface

    @property
    def segment_length(self) -> int:
        return self.tensors.segment_length if self.network is None else 1

    def policy(self) -> Agent:
        return self.tensors.agent

    def weights(self) -> Agent | dict[str, NDArray[np.float32]]:
        if self.network is not None and not serialization.has_torch():
            return self.network.weights()
        return self.tensors.agent

    def iterate(self, progress: Progress) -> Iteration:
        iteration = self.compute.iterate(self, progress)
        if self.config.ppo.gradient_statistics:
            iteration.metrics.update(diagnostics.gradient_statistics(self.tensors.agent))
        return iteration

    def export_env_state(self) -> None:
        self.compute.export_env_state()

    def env_state_changed(self) -> None:
        self.compute.invalidate()

    def _capture_tensors(self) -> dict[str, Any]:
        """Without torch: what the tensors would capture if they were built now; only Adam's moments have changed."""
        network = self.network
        if network is None or serialization.has_torch():
            return self.tensors.capture()
        adam = {"exp_avg": "mean", "exp_avg_sq": "spread", "step_count": "step_count"}
        return {
            "optimizer": {name: network.numbers[own].copy() for name, own in adam.items()},
            "memory": {},
            "reward_sums": np.zeros(self.envs.count, np.float32),
            "sampler": seeded_torch_state(draw_seed(self.config.seed, "actions", self.group.rank)),
            "teacher": None,
        }
