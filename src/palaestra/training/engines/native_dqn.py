"""DQN computed by the compiled engine; see native/engine/dqn_learner.hpp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.algorithms.dqn.algorithm import Dqn
from palaestra.core.lazy_import import lazy_import
from palaestra.training.engines.native_off_policy import NativeOffPolicy, compiled_or_refuse, optimizer_capture
from palaestra.training.engines.off_policy_plan import (
    adam_arrays,
    compiled_adam,
    compiled_config,
    compiled_space,
    normalizer_of,
    plan_vector,
    refuse_unfit,
    refuse_unfit_network,
    replay_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from palaestra.algorithms.base import Algorithm, Progress
    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.dqn.torch_dqn import DqnTensors
    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.training.engines import policy_plan
    from palaestra.training.engines.network_plan import NetworkPlan
    from palaestra.training.engines.numpy_network import NumpyNetwork
else:
    policy_plan = lazy_import("palaestra.training.engines.policy_plan")


class NativeDqn(NativeOffPolicy, Dqn):
    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        tensors: Callable[[], DqnTensors],
        with_torch: Callable[[str], Algorithm],
        compiled: ModuleType | None,
        network: NumpyNetwork | None = None,
        kernels: str = "",
    ) -> None:
        """Raises Unsupported where the engine cannot do what torch would.

        `tensors` builds them on the first call and gives the same ones later. `network`: where it is known without
        torch; its memory has an entry `target`.
        """
        super().__init__(config, config.dqn, envs, buffer, group)
        compiled = compiled_or_refuse(compiled)
        refuse_unfit(config, self.dqn.optimizer)
        self.network = network
        self.with_torch = with_torch
        self.learning_rate_schedule = self.dqn.learning_rate
        self._tensors = tensors
        plan, self._memory = self._plan_network()
        refuse_unfit_network(plan)
        self.attach(compiled, self._new_learner(compiled, plan, kernels))

    @property
    def tensors(self) -> DqnTensors:
        return self._tensors()

    @property
    def agent(self) -> Agent:
        return self.tensors.agent

    def _plan_network(self) -> tuple[NetworkPlan, dict[str, NDArray[np.float32]]]:
        """The network's plan, and its memory with the target's; without torch if possible."""
        if self.network is not None:
            return self.network.plan, self.network.numbers
        tensors = self.tensors
        memory = {name: part.numpy() for name, part in tensors.optimizer.adam_memory().items()}
        plan = policy_plan.plan_policy(tensors.agent, tensors.optimizer.flat)
        return plan, {**memory, "target": tensors.target.flat.numpy()}

    def _new_learner(self, compiled: ModuleType, plan: NetworkPlan, kernels: str) -> Any:
        dqn, space = self.dqn, self.envs.interface.observation_space
        memory = adam_arrays(self._memory)
        target = memory.pop("target")
        vector = plan_vector(space)
        settings = compiled.DqnConfig(
            is_double=dqn.double,
            is_huber=dqn.loss == "huber",
            tau=dqn.tau,
            priority_alpha=dqn.prioritized.alpha,
            priority_epsilon=dqn.prioritized.epsilon,
        )
        return compiled.make_dqn_learner(
            network=plan,
            network_input=vector,
            action_space=compiled_space(compiled, self.envs.interface.action_space),
            parameters=memory,
            target=target,
            buffer=replay_arrays(self.buffer),
            normalizer=normalizer_of(self.agent, vector) if self.config.policy.normalize_observations else None,
            config=compiled_config(compiled, self.config, dqn, self.group),
            adam=compiled_adam(compiled, dqn.optimizer, dqn.max_grad_norm),
            dqn=settings,
            priorities=None if self.priorities is None else self.priorities.tree.sums,
            n_step=dqn.n_step,
            gamma=dqn.gamma,
            kernels=kernels,
        )

    # ---- iterations

    def before_first_update(self) -> None:
        np.copyto(self._memory["target"], self._memory["values"])

    def rates(self, now: Progress) -> tuple[float, float]:
        return super().rates(now)[0], self.beta(now)

    def second_rates(self, fractions: NDArray[np.float64], learning_rates: NDArray[np.float64]) -> NDArray[np.float64]:
        del learning_rates
        start = self.dqn.prioritized.beta
        return start + (1 - start) * np.minimum(fractions, 1.0)

    def exploration_rates(self, fractions: NDArray[np.float64]) -> NDArray[np.float64]:
        config = self.dqn.exploration
        return config.start + (config.end - config.start) * np.minimum(fractions / config.fraction, 1.0)

    def targets_due(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int32]:
        interval = self.dqn.target_interval
        return (after // interval - before // interval).astype(np.int32)

    def explore(self, observations: Arrays, now: Progress) -> NDArray[Any]:
        del observations
        return self.act(now, self.epsilon(now))

    def greedy_actions(self, observations: Arrays) -> NDArray[np.int64]:
        del observations
        raise AssertionError("the engine chooses greedy and random actions at once")

    def update_target(self, tau: float) -> None:
        assert tau == self.dqn.tau, "the engine was built with it"
        self.learner.update_targets()

    def learn(self, count: int, now: Progress) -> None:
        self._load_priorities()
        super().learn(count, now)
        self._store_priorities()

    def _run(self, *arguments: Any) -> tuple[int, dict[str, Any]]:
        self._load_priorities()
        result = super()._run(*arguments)
        self._store_priorities()
        return result

    def _load_priorities(self) -> None:
        if self.priorities is not None:
            self.learner.largest_priority = self.priorities.largest

    def _store_priorities(self) -> None:
        if self.priorities is not None:
            self.priorities.largest = self.learner.largest_priority

    # ---- captures

    def capture_networks(self) -> dict[str, Any]:
        if self.network is None or serialization.has_torch():
            return self.tensors.capture()
        return {"optimizer": optimizer_capture(self._memory), "target": self._memory["target"].copy()}

    def restore_networks(self, saved: Mapping[str, Any]) -> None:
        self.tensors.restore(saved)
