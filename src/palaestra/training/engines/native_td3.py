"""TD3 computed by the compiled engine; see native/engine/td3_learner.hpp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.algorithms import serialization
from palaestra.algorithms.td3.algorithm import Td3
from palaestra.training.engines.native_actor_critic import NativeActorCritic, copy_target, ending_with_tanh
from palaestra.training.engines.native_off_policy import compiled_or_refuse, optimizer_capture
from palaestra.training.engines.off_policy_plan import refuse_unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from palaestra.algorithms.base import Algorithm
    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.td3.torch_td3 import Td3Tensors
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.training.engines.native_actor_critic import NumpyActorCritic


class NativeTd3(NativeActorCritic, Td3):
    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        tensors: Callable[[], Td3Tensors],
        with_torch: Callable[[str], Algorithm],
        compiled: ModuleType | None,
        networks: NumpyActorCritic | None = None,
        kernels: str = "",
    ) -> None:
        """Raises Unsupported where the engine cannot do what torch would.

        `tensors` builds them on the first call and gives the same ones later. `networks`: where they are known without
        torch.
        """
        super().__init__(config, config.td3, envs, buffer, group)
        compiled = compiled_or_refuse(compiled)
        refuse_unfit(config, self.td3.optimizer)
        self.with_torch = with_torch
        self.learning_rate_schedule = self.td3.learning_rate
        self._tensors = tensors
        if networks is not None:
            self.plan_known_networks(networks)
        else:
            self.plan_networks(self.agent, self.tensors.optimizer, self.tensors.critics)
            self.actor_memory["target"] = self.tensors.target.flat.numpy()
        self.actor_plan = ending_with_tanh(self.actor_plan)
        td3 = compiled.Td3Config(
            exploration_noise=self.td3.exploration_noise,
            target_noise=self.td3.target_noise,
            target_noise_clip=self.td3.target_noise_clip,
        )
        learner = compiled.make_td3_learner(
            **self.common_parts(compiled, self.td3, 2 if self.td3.twin_critics else 1, kernels),
            actor_target=self.actor_memory["target"],
            td3=td3,
        )
        self.attach(compiled, learner)

    @property
    def tensors(self) -> Td3Tensors:
        return self._tensors()

    @property
    def agent(self) -> Agent:
        return self.tensors.agent

    def before_first_update(self) -> None:
        copy_target(self.actor_memory)

    def capture_learning(self) -> dict[str, Any]:
        if self.network is None or serialization.has_torch():
            return self.tensors.capture()
        return {
            "optimizer": optimizer_capture(self.actor_memory),
            "target": self.actor_memory["target"].copy(),
            **self.capture_critics(),
        }

    def restore_learning(self, saved: Mapping[str, Any]) -> None:
        self.tensors.restore(saved)
