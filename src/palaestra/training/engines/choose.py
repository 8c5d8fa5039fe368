"""Builds PPO with the configured engine; `auto` takes the native one where it fits."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.core.lazy_import import lazy_import
from palaestra.core.seeds import draw_seed
from palaestra.training.engines import native_engine
from palaestra.training.engines.engine_choice import choose_engine
from palaestra.training.engines.native_envs import exact_native_envs
from palaestra.training.engines.native_off_policy import NativeOffPolicy
from palaestra.training.engines.native_ppo import NativePpo
from palaestra.training.engines.native_pqn import NativePqn
from palaestra.training.engines.network_plan import Unsupported
from palaestra.training.engines.numpy_network import build_numpy_network
from palaestra.training.machine import is_surely_cpu, keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.algorithms.base import Algorithm
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.ppo import tensors as ppo_tensors
    from palaestra.algorithms.ppo import torch_ppo
    from palaestra.algorithms.ppo.tensors import PpoTensors
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies import device as devices
    from palaestra.policies.agent import Agent
    from palaestra.policies.warm_start import WarmStart
    from palaestra.training.engines.numpy_network import NumpyNetwork
else:
    devices = lazy_import("palaestra.policies.device")
    ppo_tensors = lazy_import("palaestra.algorithms.ppo.tensors")
    torch_ppo = lazy_import("palaestra.algorithms.ppo.torch_ppo")


def build_ppo(
    config: TrainConfig,
    envs: VectorEnvs,
    env_seeds: Sequence[int],
    group: Group,
    teacher: Agent | None = None,
    warm_start: WarmStart | None = None,
) -> Algorithm:
    """PPO before its first step; the environments are reset. A collective, unless `engine=torch`."""
    device = None if is_surely_cpu(config.device) else devices.choose_device(config.device, group.local_rank)
    seed = draw_seed(config.seed, "weights")
    network = build_numpy_network(config.policy, envs.interface, seed) if warm_start is None else None
    buffer = RolloutBuffer(envs.interface.observation_space, config.ppo.horizon, envs.count, device)

    @cache
    def tensors() -> PpoTensors:
        shared = None if network is None else network.numbers
        return ppo_tensors.build_tensors(
            config, envs.interface, envs.count, buffer.device, group, shared, teacher, warm_start
        )

    if network is None or "torch" in sys.modules:
        tensors()  # refuses a bad network before the environments start
    envs.reset(list(env_seeds), buffer.rows[0])
    return _choose_engine(config, envs, buffer, group, tensors, network)


def _choose_engine(
    config: TrainConfig,
    envs: VectorEnvs,
    buffer: RolloutBuffer,
    group: Group,
    tensors: Callable[[], PpoTensors],
    network: NumpyNetwork | None,
) -> Algorithm:
    def with_torch(description: str) -> Algorithm:
        return _torch_ppo(config, envs, buffer, group, tensors(), description)

    def with_native() -> Algorithm:
        _refuse_unfit(config, buffer)
        return NativePpo(config, envs, buffer, group, tensors, network)

    return choose_engine(config, group, with_torch, with_native)


def with_engine_of(algorithm: Algorithm, captured_by: str) -> Algorithm:
    """What continues a run: `engine=auto` stays with the engine that made the capture, a named engine takes its place.

    Weights that were loaded into `algorithm` are those of the result.
    """
    if algorithm.engine == captured_by or captured_by != TORCH_ENGINE:
        return algorithm
    reason = "torch, with which the run began"
    if isinstance(algorithm, NativePpo) and algorithm.config.engine == "auto":
        ppo = algorithm
        return _torch_ppo(ppo.config, ppo.envs, ppo.buffer, ppo.group, ppo.tensors, reason)
    if isinstance(algorithm, NativeOffPolicy | NativePqn) and algorithm.config.engine == "auto":
        return algorithm.with_torch(reason)
    return algorithm


def _torch_ppo(
    config: TrainConfig,
    envs: VectorEnvs,
    buffer: RolloutBuffer,
    group: Group,
    tensors: PpoTensors,
    description: str,
) -> Algorithm:
    if buffer.is_on_cpu:
        keep_freed_memory()
    native_envs = exact_native_envs(envs, native_engine.native_learner)
    return torch_ppo.TorchPpo(config, envs, buffer, group, tensors, description, native_envs)


def _refuse_unfit(config: TrainConfig, buffer: RolloutBuffer) -> None:
    """Settings of the update that only torch supports; networks are checked by `plan_policy`."""
    if not buffer.is_on_cpu:
        raise Unsupported(f"device={buffer.device.type}")
    for setting, is_set in _only_torch(config).items():
        if is_set:
            raise Unsupported(setting)


def _only_torch(config: TrainConfig) -> dict[str, bool]:
    ppo, regularize = config.ppo, config.ppo.regularize
    return {
        "policy.compile=true": config.policy.compile,
        f"ppo.optimizer={ppo.optimizer.kind}": ppo.optimizer.kind != "adam",
        f"ppo.regularize.clip_range={regularize.clip_range}": regularize.clip_range is not None,
        f"ppo.regularize.l2={regularize.l2}": regularize.l2 > 0,
        f"ppo.regularize.l2_init={regularize.l2_init}": regularize.l2_init > 0,
        "ppo.vtrace.enabled=true": ppo.vtrace.enabled,
        "ppo.prioritized.enabled=true": ppo.prioritized.enabled,
        f"ppo.kickstart.teacher={ppo.kickstart.teacher}": ppo.kickstart.teacher is not None,
    }
