"""SAC computed by the compiled engine; see native/engine/sac_learner.hpp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.algorithms import serialization
from palaestra.algorithms.sac.algorithm import Sac
from palaestra.training.engines.native_actor_critic import NativeActorCritic
from palaestra.training.engines.native_off_policy import compiled_or_refuse, optimizer_capture, values_at
from palaestra.training.engines.off_policy_plan import adam_arrays, refuse_unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    from palaestra.algorithms.base import Algorithm, Progress
    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.sac.torch_sac import SacTensors
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.training.engines.native_actor_critic import NumpyActorCritic

CRITICS = 2


class NativeSac(NativeActorCritic, Sac):
    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        tensors: Callable[[], SacTensors],
        with_torch: Callable[[str], Algorithm],
        compiled: ModuleType | None,
        networks: NumpyActorCritic | None = None,
        kernels: str = "",
    ) -> None:
        """Raises Unsupported where the engine cannot do what torch would.

        `tensors` builds them on the first call and gives the same ones later. `networks`: where they are known without
        torch.
        """
        super().__init__(config, config.sac, envs, buffer, group)
        compiled = compiled_or_refuse(compiled)
        refuse_unfit(config, self.sac.optimizer)
        self.with_torch = with_torch
        self.learning_rate_schedule = self.sac.learning_rate
        self._tensors = tensors
        if networks is not None:
            self.plan_known_networks(networks)
            self._temperature = networks.temperature
        else:
            self.plan_networks(self.agent, self.tensors.optimizer, self.tensors.critics)
            self._temperature = {name: part.numpy() for name, part in self.tensors.temperature.memory().items()}
        learner = compiled.make_sac_learner(
            **self.common_parts(compiled, self.sac, CRITICS, kernels),
            temperature=adam_arrays(self._temperature),
            learns_temperature=self.learns_temperature,
            target_entropy=self.target_entropy,
        )
        self.attach(compiled, learner)

    @property
    def tensors(self) -> SacTensors:
        return self._tensors()

    @property
    def agent(self) -> Agent:
        return self.tensors.agent

    def rates(self, now: Progress) -> tuple[float, float]:
        return self.learning_rates(now)

    def second_rates(self, fractions: NDArray[np.float64], learning_rates: NDArray[np.float64]) -> NDArray[np.float64]:
        critic = self.sac.critic_learning_rate
        return learning_rates if critic is None else values_at(critic, fractions)

    def capture_learning(self) -> dict[str, Any]:
        if self.network is None or serialization.has_torch():
            return self.tensors.capture()
        return {
            "optimizer": optimizer_capture(self.actor_memory),
            **self.capture_critics(),
            "temperature": {"log_alpha": self._temperature["values"].copy(), **optimizer_capture(self._temperature)},
        }

    def restore_learning(self, saved: Mapping[str, Any]) -> None:
        self.tensors.restore(saved)
