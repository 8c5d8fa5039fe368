"""PQN computed by the compiled engine; see native/engine/pqn_learner.hpp."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.algorithms.base import NATIVE_ENGINE, Iteration, Progress
from palaestra.algorithms.buffers.finite import refuse_non_finite_ends
from palaestra.algorithms.exploration import ACTION_STREAM, EPSILON_STREAM, epsilon_at
from palaestra.algorithms.pqn.algorithm import Pqn
from palaestra.algorithms.schedules import value_at
from palaestra.core.episodes import EpisodeColumns
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.core.lazy_import import lazy_import
from palaestra.core.reports import PhaseTimes, UpdateFigures
from palaestra.core.seeds import draw_seed
from palaestra.core.spaces import DiscreteSpec
from palaestra.training.engines.native_off_policy import choose_stepping, compiled_or_refuse, optimizer_capture
from palaestra.training.engines.native_rollout import EpisodeEnds, NetworkInputs
from palaestra.training.engines.off_policy_plan import (
    adam_arrays,
    compiled_adam,
    normalizer_of,
    plan_vector,
    refuse_unfit,
    refuse_unfit_network,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from palaestra.algorithms.base import Algorithm
    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.pqn.torch_pqn import PqnTensors
    from palaestra.config.train import TrainConfig
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.training.engines import policy_plan
    from palaestra.training.engines.native_envs import ClassicControlEnvs
    from palaestra.training.engines.network_plan import NetworkPlan
    from palaestra.training.engines.numpy_network import NumpyNetwork
else:
    policy_plan = lazy_import("palaestra.training.engines.policy_plan")


class NativePqn(Pqn):
    engine = NATIVE_ENGINE

    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: RolloutBuffer,
        group: Group,
        tensors: Callable[[], PqnTensors],
        with_torch: Callable[[str], Algorithm],
        compiled: ModuleType | None,
        network: NumpyNetwork | None = None,
        kernels: str = "",
    ) -> None:
        """Raises Unsupported where the engine cannot do what torch would.

        `tensors` builds them on the first call and gives the same ones later. `network`: where it is known without
        torch.
        """
        super().__init__(config, envs, buffer, group)
        compiled = compiled_or_refuse(compiled)
        refuse_unfit(config, self.pqn.optimizer)
        self.network = network
        self.with_torch = with_torch
        self._tensors = tensors
        plan, self._memory = self._plan_network()
        refuse_unfit_network(plan)
        self._inputs = NetworkInputs(plan, buffer)
        self._actions = np.zeros(buffer.rewards.shape, np.int64)  # [T, B]
        self.learner = self._new_learner(compiled, plan, kernels)
        self._inside, where = choose_stepping(envs, compiled)
        self.description = f"native, {self.learner.kernels}; environments stepped {where}"

    @property
    def tensors(self) -> PqnTensors:
        return self._tensors()

    @property
    def interface(self) -> EnvInterface:
        return self.tensors.agent.interface if self.network is None else self.envs.interface

    def policy(self) -> Agent:
        return self.tensors.agent

    def weights(self) -> Agent | Mapping[str, NDArray[np.float32]]:
        if self.network is not None and not serialization.has_torch():
            return self.network.weights()
        return self.tensors.agent

    def _plan_network(self) -> tuple[NetworkPlan, dict[str, NDArray[np.float32]]]:
        if self.network is not None:
            return self.network.plan, self.network.numbers
        agent, optimizer = self.tensors.agent, self.tensors.optimizer
        memory = {name: part.numpy() for name, part in optimizer.adam_memory().items()}
        return policy_plan.plan_policy(agent, optimizer.flat), memory

    def _new_learner(self, compiled: ModuleType, plan: NetworkPlan, kernels: str) -> Any:
        pqn, interface, buffer = self.pqn, self.envs.interface, self.buffer
        vector, space = plan_vector(interface.observation_space), interface.action_space
        assert isinstance(space, DiscreteSpec), "`policies.roles` refuses other action spaces"
        purposes = {"exploration": ACTION_STREAM, "epsilon": EPSILON_STREAM, "order": "minibatches"}
        seeds = {
            f"{name}_seed": draw_seed(self.config.seed, purpose, self.group.rank) for name, purpose in purposes.items()
        }
        return compiled.PqnLearner(
            network=plan,
            network_input=vector,
            choices=space.count,
            parameters=adam_arrays(self._memory),
            buffer={
                "observations": self._inputs.vector,
                "rewards": buffer.rewards,
                "starts": buffer.starts,
                "terminated": buffer.terminated,
                "actions": self._actions,
                "next_values": np.zeros_like(buffer.rewards),
                "returns": np.zeros_like(buffer.rewards),
            },
            normalizer=normalizer_of(self.policy(), vector) if self.config.policy.normalize_observations else None,
            config=compiled.PqnConfig(
                gamma=pqn.gamma,
                q_lambda=pqn.q_lambda,
                epochs=pqn.update_epochs,
                minibatch_size=pqn.minibatch_size,
                threads=self.config.torch_threads,
                **seeds,
            ),
            adam=compiled_adam(compiled, pqn.optimizer, pqn.max_grad_norm),
            kernels=kernels,
        )

    # ---- environments

    def export_env_state(self) -> None:
        if self._inside is not None:
            self._inside.export_state()

    def env_state_changed(self) -> None:
        if self._inside is not None:
            self._inside.invalidate()

    # ---- iterations

    def iterate(self, progress: Progress) -> Iteration:
        began = perf_counter()
        self.learner.pack()
        episodes = self._collect(progress)
        self.buffer.refuse_non_finite()
        collected = perf_counter()
        figures = self._learn(progress)
        if self.config.policy.normalize_observations:
            self.policy().take_in(self.buffer.observations, self.group.stack)
        self.buffer.rewind()
        times = PhaseTimes(collected - began, perf_counter() - collected)
        done = progress.after(self.pqn.steps_per_iteration * self.group.world_size)
        epsilon = epsilon_at(self.pqn.exploration, done.fraction)
        return Iteration(self.pqn.steps_per_iteration, figures, episodes, times, {"charts/epsilon": epsilon})

    def _collect(self, progress: Progress) -> Sequence[EpisodeResult]:
        at_once = self.envs.count * self.group.world_size
        number = progress.env_steps // at_once  # steps of each environment so far
        steps = range(self.buffer.horizon)
        epsilons = [epsilon_at(self.pqn.exploration, progress.after(step * at_once).fraction) for step in steps]
        try:
            if self._inside is not None:
                return self._collect_inside(self._inside, number, epsilons)
            return self._collect_in_python(number, epsilons)
        except IndexError as error:  # the engine checks observations when it reads them
            raise RunFailed(
                f"An environment of '{self.config.env}' left its own observation space: {error}."
            ) from error

    def _collect_inside(
        self, envs: ClassicControlEnvs, number: int, epsilons: Sequence[float]
    ) -> Sequence[EpisodeResult]:
        envs.import_state()
        episodes = EpisodeColumns(**self.learner.collect(envs.native, number, np.array(epsilons)))
        envs.publish(self.envs, self.buffer.horizon, len(episodes), self.buffer.rewards[-1])
        return episodes

    def _collect_in_python(self, number: int, epsilons: Sequence[float]) -> Sequence[EpisodeResult]:
        buffer, ends = self.buffer, EpisodeEnds(self.buffer)
        for step, epsilon in enumerate(epsilons):
            self.learner.act(step, number + step, epsilon)
            result = self.envs.step(self._actions[step], buffer.rows[step + 1])
            buffer.rewards[step] = result.rewards
            ends.add(step, result.endings)
        vector, _ = self._inputs.stack([ending.final_observation for _, ending in ends.truncations])
        indices = [ending.env_index for _, ending in ends.truncations]
        refuse_non_finite_ends(vector, indices)
        self.learner.estimate_returns(vector, [step for step, _ in ends.truncations], indices)
        return ends.episodes

    def _learn(self, progress: Progress) -> UpdateFigures:
        learning_rate = value_at(self.pqn.learning_rate, progress.fraction)
        norm = self.learner.update(progress.iteration, learning_rate, self.group.reducer)
        if not math.isfinite(norm):
            raise NonFinite(f"The gradient's norm is {norm}.")
        return UpdateFigures({**self.learner.stats(), "charts/learning_rate": learning_rate})

    # ---- captures

    def capture_optimizer(self) -> dict[str, Any]:
        if self.network is None or serialization.has_torch():
            return {"optimizer": self.tensors.optimizer.capture()}
        return {"optimizer": optimizer_capture(self._memory)}

    def restore_optimizer(self, saved: Mapping[str, Any]) -> None:
        self.tensors.optimizer.restore(saved["optimizer"])
