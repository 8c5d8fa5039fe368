"""What `CheckpointManager` takes for an agent, and how it is given back: ours, or any torch module."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from palaestra.checkpoints.loaded import LoadedPolicy, policy_from
from palaestra.checkpoints.names import model_name
from palaestra.checkpoints.restore import fill_module
from palaestra.checkpoints.targets import lies_in_own_store
from palaestra.checkpoints.weights import weights_from_bytes
from palaestra.core.checkpoint import TORCH_MODULE
from palaestra.core.errors import UsageError
from palaestra.core.spaces import encode_interface
from palaestra.policies.agent import Agent
from palaestra.policies.shipped import self_contained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.checkpoints.reading import OpenedCheckpoint


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


def agent_from(opened: OpenedCheckpoint, directory: Path, *, trust_module: bool) -> LoadedPolicy:
    """One of ours, ready to `act`; a class that it names is imported as `load_policy` would."""
    return policy_from(opened, trust_module=trust_module or lies_in_own_store(directory))


def module_from(opened: OpenedCheckpoint, into: nn.Module | Callable[[], nn.Module] | None) -> nn.Module:
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
