"""Builds every policy, from its configuration and the spaces of its environment."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from palaestra.core import plugins
from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy
from palaestra.policies.graph import GraphPolicy
from palaestra.policies.graph_spec import read_graph
from palaestra.policies.shipped import (
    is_file,
    is_text,
    parse_graph,
    read_text,
    shipped_graph,
    shipped_names,
    with_chosen_network,
)

if TYPE_CHECKING:
    from palaestra.config.policy import PolicyConfig
    from palaestra.core.spaces import EnvInterface

OWN = "own"  # what a graph is called that came without a name


def build_policy(config: PolicyConfig, interface: EnvInterface) -> Agent:
    """The policy that `config` asks for, ready to act in environments with this `interface`.

    Weights are drawn from torch's global generator; seed it before, for the same policy again.
    """
    agent = Agent(
        build_network(config, interface),
        interface,
        normalize_observations=config.normalize_observations,
        normalize_returns=config.normalize_returns,
    )
    agent.config = config
    return agent


def build_network(config: PolicyConfig, interface: EnvInterface) -> Policy:
    config = with_chosen_network(config, interface)
    source = find_policy(config)
    if isinstance(source, Graph):
        return GraphPolicy(read_graph(source.name, source.data, config.settings), interface, config.role)
    _refuse_unfit_role(source, config)
    settings = read_settings(source, config)
    plays_one_role = source.roles == Policy.roles
    network: Policy = source(interface, settings) if plays_one_role else source(interface, settings, config.role)
    return network


def _refuse_unfit_role(policy_class: type[Policy], config: PolicyConfig) -> None:
    if config.role not in policy_class.roles:
        roles = ", ".join(policy_class.roles)
        raise UsageError(
            f"policy={config}: {policy_class.__name__} does not serve the role {config.role}; its roles: {roles}.",
            f"Give the class roles = ({config.role!r},) and a forward with that distribution "
            "(see palaestra.policies.base.Policy), or take algorithm=ppo.",
        )


@dataclass(frozen=True)
class Graph:
    name: str
    data: Any  # as parsed from YAML


def find_policy(config: PolicyConfig) -> Graph | Any:
    """A graph, or a class with a `Settings` model that is called as `Class(interface, settings)` to make a Policy."""
    if config.module is not None:
        return _policy_class(_import_class(config.module), f"policy.module={config.module}")
    name = str(config.graph)
    if is_text(name):
        return Graph(OWN, parse_graph(name, OWN))
    if is_file(name):
        return Graph(name, parse_graph(read_text(name), name))
    if name in shipped_names():
        return Graph(name, shipped_graph(name))
    return _from_plugin(name)


def is_graph(config: PolicyConfig) -> bool:
    """Whether it is a graph of components rather than a third-party class."""
    return config.module is None and isinstance(find_policy(config), Graph)


def policy_names() -> list[str]:
    """What `policy=` can be: our graphs, and what other packages bring."""
    return sorted({*shipped_names(), *plugins.names("policies")})


def _from_plugin(name: str) -> Graph | Any:
    if name not in plugins.names("policies"):
        hint = did_you_mean(name, policy_names()) or f"Known: {', '.join(policy_names())}; or a file ending in .yaml."
        raise NotFound(f"No policy named '{name}'.", hint)
    found = plugins.load("policies", name)
    if isinstance(found, Path):
        return Graph(name, parse_graph(read_text(found), name))
    return _policy_class(found, f"policy.graph={name}")


def _policy_class(found: Any, key: str) -> Any:
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise UsageError(
            f"{key} is not a palaestra.policies.base.Policy.",
            "Derive your class from it and give it a forward(observation, memory, starts).",
        )
    settings = getattr(found, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, BaseModel)):
        raise UsageError(
            f"{key} has no Settings.",
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


def read_settings(policy_class: Any, config: PolicyConfig) -> BaseModel:
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
