"""Builds PQN, DQN, SAC and TD3 with the configured engine, before their first step; the environments are reset."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.core.errors import UsageError
from palaestra.core.lazy_import import lazy_import
from palaestra.core.seeds import draw_seed
from palaestra.training.engines import native_engine
from palaestra.training.engines.engine_choice import choose_engine
from palaestra.training.engines.native_actor_critic import numpy_actor_critic
from palaestra.training.engines.native_dqn import NativeDqn
from palaestra.training.engines.native_envs import exact_native_envs
from palaestra.training.engines.native_pqn import NativePqn
from palaestra.training.engines.native_sac import NativeSac
from palaestra.training.engines.native_td3 import NativeTd3
from palaestra.training.engines.network_plan import Unsupported
from palaestra.training.engines.numpy_network import build_numpy_critics, build_numpy_network
from palaestra.training.machine import is_surely_cpu, keep_freed_memory

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
    from palaestra.training.engines.native_actor_critic import NumpyActorCritic
    from palaestra.training.engines.native_envs import ClassicControlEnvs
    from palaestra.training.engines.numpy_network import NumpyNetwork

    Builder = Callable[[TrainConfig, VectorEnvs, Group, WarmStart | None], Algorithm]
else:
    devices = lazy_import("palaestra.policies.device")
    torch = lazy_import("torch")
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
    algorithm = build(config, envs, group, warm_start)
    algorithm.reset_envs(env_seeds)
    return algorithm


def build_dqn(config: TrainConfig, envs: VectorEnvs, group: Group, warm_start: WarmStart | None) -> Algorithm:
    device = _device(config, group)
    network = _numpy_policy(config, envs, device, warm_start)
    if network is not None:
        network.numbers["target"] = network.numbers["values"].copy()
    buffer = ReplayBuffer(envs.interface, config.dqn.buffer_size, envs.count)

    @cache
    def tensors() -> torch_dqn.DqnTensors:
        shared = None if network is None else network.numbers
        return torch_dqn.build_tensors(config, envs.interface, device(), group, shared, warm_start)

    def with_torch(description: str) -> Algorithm:
        return torch_dqn.TorchDqn(config, envs, buffer, group, tensors(), description, _exact_envs(envs))

    def with_native() -> Algorithm:
        _refuse_devices(config, device)
        compiled = native_engine.native_learner
        return NativeDqn(config, envs, buffer, group, tensors, with_torch, compiled, network)

    _build_early(network, tensors)
    return choose_engine(config, group, with_torch, with_native)


def build_pqn(config: TrainConfig, envs: VectorEnvs, group: Group, warm_start: WarmStart | None) -> Algorithm:
    device = _device(config, group)
    network = _numpy_policy(config, envs, device, warm_start)
    on_device = None if _is_on_cpu(config, device) else device()
    buffer = RolloutBuffer(envs.interface.observation_space, config.pqn.horizon, envs.count, on_device)

    @cache
    def tensors() -> torch_pqn.PqnTensors:
        shared = None if network is None else network.numbers
        return torch_pqn.build_tensors(config, envs.interface, device(), group, shared, warm_start)

    def with_torch(description: str) -> Algorithm:
        return torch_pqn.TorchPqn(config, envs, buffer, group, tensors(), description, _exact_envs(envs))

    def with_native() -> Algorithm:
        _refuse_devices(config, device)
        compiled = native_engine.native_learner
        return NativePqn(config, envs, buffer, group, tensors, with_torch, compiled, network)

    _build_early(network, tensors)
    return choose_engine(config, group, with_torch, with_native)


def build_sac(config: TrainConfig, envs: VectorEnvs, group: Group, warm_start: WarmStart | None) -> Algorithm:
    sac, device = config.sac, _device(config, group)
    first = sac.initial_temperature if sac.temperature is None else sac.temperature
    networks = _numpy_actor_critic(config, envs, device, warm_start, 2, first)
    buffer = ReplayBuffer(envs.interface, sac.buffer_size, envs.count)

    @cache
    def tensors() -> torch_sac.SacTensors:
        shared = None if networks is None else networks.shared()
        return torch_sac.build_tensors(config, envs.interface, device(), group, shared, warm_start)

    def with_torch(description: str) -> Algorithm:
        return torch_sac.TorchSac(config, envs, buffer, group, tensors(), description, _exact_envs(envs))

    def with_native() -> Algorithm:
        _refuse_devices(config, device)
        compiled = native_engine.native_learner
        return NativeSac(config, envs, buffer, group, tensors, with_torch, compiled, networks)

    _build_early(networks, tensors)
    return choose_engine(config, group, with_torch, with_native)


def build_td3(config: TrainConfig, envs: VectorEnvs, group: Group, warm_start: WarmStart | None) -> Algorithm:
    td3, device = config.td3, _device(config, group)
    networks = _numpy_actor_critic(config, envs, device, warm_start, 2 if td3.twin_critics else 1, 1.0)
    buffer = ReplayBuffer(envs.interface, td3.buffer_size, envs.count)

    @cache
    def tensors() -> torch_td3.Td3Tensors:
        shared = None if networks is None else networks.shared()
        return torch_td3.build_tensors(config, envs.interface, device(), group, shared, warm_start)

    def with_torch(description: str) -> Algorithm:
        return torch_td3.TorchTd3(config, envs, buffer, group, tensors(), description, _exact_envs(envs))

    def with_native() -> Algorithm:
        _refuse_devices(config, device)
        compiled = native_engine.native_learner
        return NativeTd3(config, envs, buffer, group, tensors, with_torch, compiled, networks)

    _build_early(networks, tensors)
    return choose_engine(config, group, with_torch, with_native)


def _device(config: TrainConfig, group: Group) -> Callable[[], torch.device]:
    """Asked only where torch is needed."""

    @cache
    def device() -> torch.device:
        chosen = (
            torch.device("cpu")
            if is_surely_cpu(config.device)
            else devices.choose_device(config.device, group.local_rank)
        )
        if chosen.type == "cpu":
            keep_freed_memory()
        return chosen

    return device


def _numpy_policy(
    config: TrainConfig, envs: VectorEnvs, device: Callable[[], torch.device], warm_start: WarmStart | None
) -> NumpyNetwork | None:
    """The policy where it is known without torch; every engine then starts with its weights."""
    if warm_start is not None or not _is_on_cpu(config, device):
        return None
    return build_numpy_network(config.policy, envs.interface, draw_seed(config.seed, "weights"))


def _numpy_actor_critic(
    config: TrainConfig,
    envs: VectorEnvs,
    device: Callable[[], torch.device],
    warm_start: WarmStart | None,
    critic_count: int,
    temperature: float,
) -> NumpyActorCritic | None:
    actor = _numpy_policy(config, envs, device, warm_start)
    seed = draw_seed(config.seed, "critics")
    critics = None if actor is None else build_numpy_critics(config.policy, envs.interface, critic_count, seed)
    return None if actor is None or critics is None else numpy_actor_critic(actor, critics, temperature)


def _is_on_cpu(config: TrainConfig, device: Callable[[], torch.device]) -> bool:
    return is_surely_cpu(config.device) or device().type == "cpu"


def _refuse_devices(config: TrainConfig, device: Callable[[], torch.device]) -> None:
    if not _is_on_cpu(config, device):
        raise Unsupported(f"device={device().type}")


def _build_early(network: NumpyNetwork | NumpyActorCritic | None, tensors: Callable[[], object]) -> None:
    """Refuses a bad network before the environments start."""
    if network is None or "torch" in sys.modules:
        tensors()


def _exact_envs(envs: VectorEnvs) -> ClassicControlEnvs | None:
    return exact_native_envs(envs, native_engine.native_learner)


BUILDERS: Mapping[str, Builder] = {  # by `algorithm`
    "pqn": build_pqn,
    "dqn": build_dqn,
    "sac": build_sac,
    "td3": build_td3,
}
