"""The one door through which every policy is made."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from palaestra import plugins
from palaestra.contracts.errors import UsageError, did_you_mean
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy

if TYPE_CHECKING:
    from palaestra.config.policy import PolicyConfig
    from palaestra.contracts.spaces import EnvInterface


def build_policy(config: PolicyConfig, interface: EnvInterface) -> Agent:
    """The policy that `config` asks for, ready to act in environments with this `interface`.

    Weights are drawn from torch's global generator; seed it before, for the same policy again.
    """
    policy_class = find_policy_class(config)
    settings = _read_settings(policy_class, config)
    network = policy_class(interface, settings)
    return Agent(
        network,
        interface,
        normalize_observations=config.normalize_observations,
        normalize_returns=config.normalize_returns,
    )


def find_policy_class(config: PolicyConfig) -> Any:
    """A class with a `Settings` model, called as `Class(interface, settings)` to make a Policy."""
    if config.module is None:
        return plugins.load("policies", str(config.graph))
    found = _import_class(config.module)
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise UsageError(
            f"policy.module={config.module} is not a palaestra.policies.base.Policy.",
            "Derive your class from it and give it a forward(observation, memory, starts).",
        )
    settings = getattr(found, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, BaseModel)):
        raise UsageError(
            f"policy.module={config.module} has no Settings.",
            "Give the class an attribute Settings: a pydantic model of what policy.settings may say.",
        )
    return found


def _import_class(path: str) -> Any:
    module_name, _, class_name = path.partition(":")
    if not class_name:
        raise UsageError(f"policy.module={path} names no class.", "Write it as package.module:Class.")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(
            f"policy.module={path}: the module '{module_name}' cannot be imported ({error}).",
            "Is its package installed, or its folder on PYTHONPATH?",
        ) from error
    if not hasattr(module, class_name):
        raise UsageError(
            f"policy.module={path}: '{module_name}' has no '{class_name}'.", did_you_mean(class_name, dir(module))
        )
    return getattr(module, class_name)


def _read_settings(policy_class: Any, config: PolicyConfig) -> BaseModel:
    model: type[BaseModel] = policy_class.Settings
    unknown = [name for name in config.settings if name not in model.model_fields]
    if unknown:
        known = ", ".join(model.model_fields) or "none"
        hint = did_you_mean(unknown[0], model.model_fields) or f"Known settings: {known}."
        raise UsageError(f"policy.settings.{unknown[0]} is not a setting of this policy.", hint)
    try:
        return model.model_validate(config.settings)
    except ValidationError as error:
        problems = "; ".join(
            f"policy.settings.{'.'.join(map(str, problem['loc']))}={problem['input']!r}: {problem['msg']}"
            for problem in error.errors()
        )
        raise UsageError(f"The policy's settings do not fit: {problems}.") from error
