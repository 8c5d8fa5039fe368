"""A policy as rows of a table: its nodes, their shapes, and how many weights each has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.policies.build import build_network
from palaestra.policies.graph import GraphPolicy
from palaestra.policies.graph_nodes import observation_signal
from palaestra.policies.graph_spec import sorted_nodes

if TYPE_CHECKING:
    from palaestra.config.policy import PolicyConfig
    from palaestra.policies.base import Policy
    from palaestra.policies.components.base import Component, Signal

# What a policy is shown for when no environment is named: the first of these that it can be built for.
SAMPLES: dict[str, EnvInterface] = {
    "a vector of 4, as CartPole-v1": EnvInterface(BoxSpec((4,)), DiscreteSpec(2)),
    "a grid [24, 11, 11] of bytes": EnvInterface(BoxSpec((24, 11, 11), "uint8", (0.0,), (255.0,)), DiscreteSpec(9)),
    "cells [11, 11] of codes and 9 counts, as Arena": EnvInterface(
        DictSpec(
            (
                ("cells", BoxSpec((11, 11), "uint8", (0.0,), (21.0,))),
                ("self", BoxSpec((9,), "uint8", (0.0,), (255.0,))),
            )
        ),
        DiscreteSpec(6),
    ),
    "200 tokens of 3 bytes": EnvInterface(BoxSpec((200, 3), "uint8", (0.0,), (255.0,)), DiscreteSpec(9)),
}


@dataclass(frozen=True)
class NodeRow:
    name: str
    kind: str  # the component's name, or a module's class
    sources: tuple[str, ...]
    shape: tuple[int, ...] | None  # of what comes out, per step; None where a module does not say
    weights: int


@dataclass(frozen=True)
class Description:
    shown_for: str
    nodes: tuple[NodeRow, ...]
    weights: int
    memory: dict[str, tuple[int, ...]]  # what is remembered, per environment


def describe(config: PolicyConfig, interface: EnvInterface | None, shown_for: str = "") -> Description:
    """Built without memory for its weights, so that even a large policy is shown at once."""
    if interface is None:
        return _describe_for_a_sample(config)
    with torch.device("meta"):
        network = build_network(config, interface)
    rows = _graph_rows(network, interface) if isinstance(network, GraphPolicy) else _module_rows(network)
    memory = {name: tuple(part.shape[1:]) for name, part in network.initial_memory(1).items()}
    return Description(shown_for, tuple(rows), count_weights(network), memory)


def count_weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _describe_for_a_sample(config: PolicyConfig) -> Description:
    refusal = None
    for name, sample in SAMPLES.items():
        try:
            return describe(config, sample, name)
        except UsageError as error:
            refusal = refusal or error
    assert refusal is not None, "there are samples"
    raise UsageError(
        f"This policy fits none of the sample observations. For {next(iter(SAMPLES))}: {refusal.message}",
        refusal.hint or "Name an environment that it is for: env.id=…",
    )


def _graph_rows(network: GraphPolicy, interface: EnvInterface) -> list[NodeRow]:
    rows = [_row(observation_signal(interface))]
    for name in sorted_nodes(network.spec.sources):
        node = next(node for node in network.spec.nodes if node.name == name)
        component: Component = network.nodes[name]  # type: ignore[assignment]  # a ModuleDict does not say of what
        rows.append(NodeRow(name, node.kind, node.sources, component.output.shape, count_weights(component)))
    return rows


def _row(signal: Signal) -> NodeRow:
    kind = type(signal.space).__name__.removesuffix("Spec").lower()
    return NodeRow(signal.name, kind, (), signal.shape, 0)


def _module_rows(network: Policy) -> list[NodeRow]:
    """Of a class of one's own only its direct parts are known."""
    parts = [
        NodeRow(name, type(part).__name__, (), None, count_weights(part)) for name, part in network.named_children()
    ]
    own = sum(weights.numel() for _, weights in network.named_parameters(recurse=False))
    return [*parts, NodeRow("(own weights)", "", (), None, own)] if own else parts
