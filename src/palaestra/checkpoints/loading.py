"""A policy back from its checkpoint, ready to act: one observation in, one action out."""

from __future__ import annotations

import sys
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from torch import nn

from palaestra.checkpoints.files import model_name
from palaestra.checkpoints.restore import fill_module, restore_agent
from palaestra.checkpoints.targets import find_target, lies_in_own_store
from palaestra.checkpoints.weights import weights_from_bytes
from palaestra.config.policy import PolicyConfig
from palaestra.core.checkpoint import TORCH_MODULE
from palaestra.core.errors import DamagedFile, RefusedFile, UsageError
from palaestra.core.spaces import decode_interface, encode_interface
from palaestra.envs.spaces import observation_arrays, to_env_action
from palaestra.policies.agent import Agent
from palaestra.policies.observations import to_tensor
from palaestra.policies.shipped import self_contained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Generator

    from palaestra.checkpoints.selection import OpenedCheckpoint
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.base import Memory


class LoadedPolicy:
    """Keeps the memory of one episode; call `reset` when another begins."""

    def __init__(self, policy: Agent, checkpoint: Checkpoint) -> None:
        self.policy = policy
        self.checkpoint = checkpoint
        self._memory: Memory = policy.initial_memory(1)

    def act(self, observation: Any, deterministic: bool = True, generator: Generator | None = None) -> Any:
        """What `env.step` takes, for one observation as `env.step` gave it."""
        interface = self.policy.interface
        arrays = observation_arrays(interface.observation_space, observation)
        with torch.inference_mode():
            output = self.policy(to_tensor(interface.observation_space, arrays), self._memory)
            chosen = output.distribution.mode() if deterministic else output.distribution.sample(generator)
        self._memory = output.memory
        return to_env_action(interface.action_space, chosen[0, 0].numpy())

    def playing_in(self, env: EnvInterface) -> LoadedPolicy:
        """The same policy for an environment whose named features may have other ids."""
        return LoadedPolicy(self.policy.playing_in(env), self.checkpoint)

    def reset(self) -> None:
        self._memory = self.policy.initial_memory(1)


def load_policy(target: str | Path, runs_root: Path | None = None, *, trust_module: bool = False) -> LoadedPolicy:
    """`target` is `RUN:best`, `RUN:latest`, `RUN:10`, a run directory, a sidecar or a .safetensors beside its sidecar.

    A checkpoint of `policy.module=package.module:Class` needs that module, and importing it runs its code. It is
    imported for the runs of your own store, or when you have imported it already, or when you say `trust_module=True`.
    """
    found = find_target(target, runs_root)
    opened = found.open()
    return load_opened_policy(opened, trust_module=trust_module or found.is_own)


def load_opened_policy(opened: OpenedCheckpoint, *, trust_module: bool) -> LoadedPolicy:
    """The policy that verified bytes describe, in evaluation mode, on the CPU."""
    checkpoint = opened.checkpoint
    source = str(checkpoint.path or "this checkpoint")
    if "script" in checkpoint.policy:
        raise UsageError(
            f"{source} was saved by the script {checkpoint.policy['script']}, whose own classes alone can play it.",
            f"To judge it: palaestra eval {checkpoint.run}:{checkpoint.epoch}",
        )
    if TORCH_MODULE in checkpoint.policy:
        raise UsageError(
            f"{source} holds the weights of {checkpoint.policy[TORCH_MODULE]}, a torch module of its user's own.",
            f"Load it in Python: CheckpointManager(RUN).load_agent({checkpoint.epoch}, into=MODULE)",
        )
    try:
        config = PolicyConfig.model_validate(checkpoint.policy)
    except ValidationError as error:
        raise DamagedFile(f"{source}: its policy cannot be read: {error.errors()[0]['msg']}.") from error
    if config.module is not None and not trust_module:
        _refuse_unknown_module(config.module, source)
    interface = decode_interface(checkpoint.interface)
    policy = restore_agent(config, interface, opened.parts[model_name(checkpoint.epoch)], source)
    return LoadedPolicy(policy.eval().requires_grad_(False), checkpoint)  # noqa: FBT003


def _refuse_unknown_module(module: str, source: str) -> None:
    if module.partition(":")[0] not in sys.modules:
        raise RefusedFile(
            f"{source} names the Python class {module}; loading it would import that module and run its code.",
            "If you trust it, import the module first or pass trust_module=True.",
        )


@dataclass(frozen=True)
class AgentDescription:
    module: nn.Module  # whose weights are saved
    policy: dict[str, Any]
    interface: dict[str, Any]
    env: dict[str, Any]


def describe_agent(agent: Any) -> AgentDescription:
    """What a sidecar needs to know of an agent; `UsageError` when it is none."""
    if isinstance(agent, LoadedPolicy):
        before = agent.checkpoint
        return AgentDescription(agent.policy, before.policy, before.interface, before.env)
    if isinstance(agent, Agent) and agent.config is not None:
        policy = self_contained(agent.config).model_dump(mode="json")
        return AgentDescription(agent, policy, encode_interface(agent.interface), {})
    if isinstance(agent, nn.Module):
        return AgentDescription(agent, {TORCH_MODULE: _class_name(agent)}, {}, {})
    raise UsageError(
        f"save_agent cannot save a {type(agent).__module__}.{type(agent).__qualname__}.",
        "Give a torch.nn.Module, what palaestra.load_policy gave, or what build_policy made.",
    )


def is_module_checkpoint(opened: OpenedCheckpoint) -> bool:
    return TORCH_MODULE in opened.checkpoint.policy


def load_opened_agent(opened: OpenedCheckpoint, directory: Path, *, trust_module: bool) -> LoadedPolicy:
    """One of ours, ready to `act`; a class that it names is imported as `load_policy` would."""
    return load_opened_policy(opened, trust_module=trust_module or lies_in_own_store(directory))


def load_opened_module(opened: OpenedCheckpoint, into: nn.Module | Callable[[], nn.Module] | None) -> nn.Module:
    """The module `into`, or what calling it gives, with the weights of a checkpoint, in evaluation mode.

    The sidecar names the class of the module; it is never imported or called for that, because a file may name any.
    """
    checkpoint = opened.checkpoint
    source = str(checkpoint.path or f"epoch {checkpoint.epoch}")
    module = into if isinstance(into, nn.Module) or into is None else into()
    if not isinstance(module, nn.Module):
        named = checkpoint.policy.get(TORCH_MODULE, "a torch module")
        raise UsageError(
            f"{source} holds the weights of {named}, and only you can make that module.",
            f"Give it to be filled: load_agent({checkpoint.epoch}, into={_short(str(named))}(...)).",
        )
    name = model_name(checkpoint.epoch)
    fill_module(module, weights_from_bytes(opened.parts[name], source), source)
    return module.eval()


def copy_of(module: nn.Module, opened: OpenedCheckpoint) -> nn.Module | None:
    """A copy to be filled of a module that was saved here before; None when the checkpoint is of another class."""
    is_same = opened.checkpoint.policy.get(TORCH_MODULE) == _class_name(module)
    return deepcopy(module) if is_same else None


def _class_name(module: nn.Module) -> str:
    return f"{type(module).__module__}:{type(module).__qualname__}"


def _short(class_name: str) -> str:
    return class_name.rpartition(":")[2].rpartition(".")[2]
