"""A policy back from its checkpoint, ready to act: one observation in, one action out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError

from palaestra.checkpoints.names import model_name
from palaestra.checkpoints.restore import restore_agent
from palaestra.checkpoints.targets import find_target
from palaestra.config.policy import PolicyConfig
from palaestra.core.checkpoint import TORCH_MODULE
from palaestra.core.errors import DamagedFile, RefusedFile, UsageError
from palaestra.core.spaces import decode_interface
from palaestra.envs.spaces import observation_arrays, to_env_action
from palaestra.policies.observations import to_tensor

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Generator

    from palaestra.checkpoints.reading import OpenedCheckpoint
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.agent import Agent
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
    return policy_from(opened, trust_module=trust_module or found.is_own)


def policy_from(opened: OpenedCheckpoint, *, trust_module: bool) -> LoadedPolicy:
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
