"""Builds PQN, DQN, SAC and TD3 with the configured engine, before their first step; the environments are reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.core.errors import UsageError
from palaestra.core.lazy_import import lazy_import
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_envs import exact_native_envs
from palaestra.training.machine import keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from palaestra.algorithms.base import Algorithm
    from palaestra.algorithms.dqn import torch_dqn
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.pqn import torch_pqn
    from palaestra.algorithms.sac import torch_sac
    from palaestra.algorithms.td3 import torch_td3
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies import device as devices
    from palaestra.policies.warm_start import WarmStart

    Builder = Callable[[TrainConfig, VectorEnvs, Sequence[int], Group, WarmStart | None], Algorithm]
else:
    devices = lazy_import("palaestra.policies.device")
    torch_dqn = lazy_import("palaestra.algorithms.dqn.torch_dqn")
    torch_pqn = lazy_import("palaestra.algorithms.pqn.torch_pqn")
    torch_sac = lazy_import("palaestra.algorithms.sac.torch_sac")
    torch_td3 = lazy_import("palaestra.algorithms.td3.torch_td3")


def build_off_policy(
    config: TrainConfig, envs: VectorEnvs, env_seeds: Sequence[int], group: Group, warm_start: WarmStart | None = None
) -> Algorithm:
    build = BUILDERS.get(config.algorithm)
    if build is None:
        raise UsageError(
            f"algorithm={config.algorithm} is not implemented here.", f"There are: {', '.join(['ppo', *BUILDERS])}."
        )
    return build(config, envs, env_seeds, group, warm_start)


def build_dqn(
    config: TrainConfig, envs: VectorEnvs, env_seeds: Sequence[int], group: Group, warm_start: WarmStart | None
) -> Algorithm:
    device = _torch_device(config, group)
    tensors = torch_dqn.build_tensors(config, envs.interface, device, group, warm_start=warm_start)
    buffer = ReplayBuffer(envs.interface, config.dqn.buffer_size, envs.count)
    native_envs = exact_native_envs(envs, native_engine.native_learner)
    algorithm = torch_dqn.TorchDqn(config, envs, buffer, group, tensors, TORCH_ENGINE, native_envs)
    algorithm.reset_envs(env_seeds)
    return algorithm


def build_pqn(
    config: TrainConfig, envs: VectorEnvs, env_seeds: Sequence[int], group: Group, warm_start: WarmStart | None
) -> Algorithm:
    device = _torch_device(config, group)
    tensors = torch_pqn.build_tensors(config, envs.interface, device, group, warm_start=warm_start)
    buffer = RolloutBuffer(envs.interface.observation_space, config.pqn.horizon, envs.count, device)
    native_envs = exact_native_envs(envs, native_engine.native_learner)
    algorithm = torch_pqn.TorchPqn(config, envs, buffer, group, tensors, TORCH_ENGINE, native_envs)
    algorithm.reset_envs(env_seeds)
    return algorithm


def build_sac(
    config: TrainConfig, envs: VectorEnvs, env_seeds: Sequence[int], group: Group, warm_start: WarmStart | None
) -> Algorithm:
    device = _torch_device(config, group)
    tensors = torch_sac.build_tensors(config, envs.interface, device, group, warm_start=warm_start)
    buffer = ReplayBuffer(envs.interface, config.sac.buffer_size, envs.count)
    native_envs = exact_native_envs(envs, native_engine.native_learner)
    algorithm = torch_sac.TorchSac(config, envs, buffer, group, tensors, TORCH_ENGINE, native_envs)
    algorithm.reset_envs(env_seeds)
    return algorithm


def build_td3(
    config: TrainConfig, envs: VectorEnvs, env_seeds: Sequence[int], group: Group, warm_start: WarmStart | None
) -> Algorithm:
    device = _torch_device(config, group)
    tensors = torch_td3.build_tensors(config, envs.interface, device, group, warm_start=warm_start)
    buffer = ReplayBuffer(envs.interface, config.td3.buffer_size, envs.count)
    native_envs = exact_native_envs(envs, native_engine.native_learner)
    algorithm = torch_td3.TorchTd3(config, envs, buffer, group, tensors, TORCH_ENGINE, native_envs)
    algorithm.reset_envs(env_seeds)
    return algorithm


def _torch_device(config: TrainConfig, group: Group) -> torch.device:
    if config.engine == "native":
        raise UsageError(
            f"engine=native cannot take algorithm={config.algorithm}.", "Set engine=torch, or leave it at auto."
        )
    device = devices.choose_device(config.device, group.local_rank)
    if device.type == "cpu":
        keep_freed_memory()
    return device


BUILDERS: Mapping[str, Builder] = {  # by `algorithm`
    "pqn": build_pqn,
    "dqn": build_dqn,
    "sac": build_sac,
    "td3": build_td3,
}
