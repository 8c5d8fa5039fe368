"""Builds the nodes of a graph for an environment, each from the shapes of what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import did_you_mean
from palaestra.core.spaces import BoxSpec, DictSpec, EnvInterface, MultiDiscreteSpec, SpaceSpec
from palaestra.policies.components.base import Component, MemoryComponent, Misfit, Signal
from palaestra.policies.components.heads import Head, ValueHead, ValueHeadSettings
from palaestra.policies.graph_spec import OBSERVATION, GraphSpec, NodeSpec, Problems, sorted_nodes
from palaestra.policies.layers import torch_initialization

if TYPE_CHECKING:
    from palaestra.config.policy import Role

ACTIONS = "(actions)"  # what critics read beside the observation; no node can have this name


@dataclass(frozen=True)
class Purpose:
    """What nodes are built for."""

    role: Role = "actor_critic"
    actions: Signal | None = None  # of a critic: what ACTIONS stands for
    values: int = 1  # numbers that the node `value` gives


ACTOR_CRITIC = Purpose()


def build_nodes(spec: GraphSpec, interface: EnvInterface, purpose: Purpose = ACTOR_CRITIC) -> dict[str, Component]:
    """Every node, in the order written as far as their sources allow; whatever does not fit is said at once."""
    builder = NodeBuilder(spec.name, interface, purpose)
    by_name = {node.name: node for node in spec.nodes}
    for name in sorted_nodes(spec.sources):
        builder.add(by_name[name])
    builder.problems.raise_if_any()
    return builder.built


class NodeBuilder:
    def __init__(self, graph: str, interface: EnvInterface, purpose: Purpose) -> None:
        self.interface = interface
        self.purpose = purpose
        self.problems = Problems(f"The graph '{graph}'")
        self.built: dict[str, Component] = {}
        self._signals: dict[str, Signal | None] = {
            OBSERVATION: observation_signal(interface),
            ACTIONS: purpose.actions,
        }

    def inputs_of(self, node: NodeSpec) -> tuple[Signal, ...] | None:
        """What the node reads; None where a source could not be built, or does not exist."""
        inputs = [self._signal(source, node.name) for source in node.sources]
        known = tuple(signal for signal in inputs if signal is not None)
        return known if len(known) == len(inputs) else None

    def add(self, node: NodeSpec) -> None:
        """After the nodes that it reads."""
        inputs = self.inputs_of(node)
        component = None if inputs is None else self._build(node, inputs)
        self._signals[node.name] = None
        if component is not None:
            output = component.output
            self.built[node.name] = component
            self._signals[node.name] = Signal(node.name, output.shape, output.space, output.features)

    def _build(self, node: NodeSpec, inputs: tuple[Signal, ...]) -> Component | None:
        ends: dict[str, type[Component]] = {"action": Head, "value": ValueHead}
        wanted = ends.get(node.name)
        if wanted is not None and not issubclass(node.component, wanted):
            kinds = "an action_head or an action_embedding_head" if node.name == "action" else "a value_head"
            self.problems.add(f"node '{node.name}': is of type {node.kind}, but must be {kinds}")
            return None
        is_torch_drawn = self.purpose.role != "actor_critic" and "gain" not in node.settings.model_fields_set
        try:
            with torch_initialization(enabled=is_torch_drawn):
                component = self._construct(node, inputs)
        except Misfit as misfit:
            self.problems.add(f"node '{node.name}': {misfit}")
            return None
        if isinstance(component, MemoryComponent):
            component.name_memory(node.name)
        return component

    def _construct(self, node: NodeSpec, inputs: tuple[Signal, ...]) -> Component:
        role, values, kind = self.purpose.role, self.purpose.values, node.component
        if role == "actor_critic":
            return kind(inputs, node.settings, self.interface)
        if issubclass(kind, Head):
            if role not in kind.roles:
                raise Misfit(f"{node.kind} does not serve the role {role}; its roles: {', '.join(kind.roles)}")
            return kind(inputs, node.settings, self.interface, role)
        if issubclass(kind, MemoryComponent):
            raise Misfit(f"{node.kind} has memory, and this algorithm learns from single steps; take algorithm=ppo")
        if issubclass(kind, ValueHead) and values > 1:
            assert isinstance(node.settings, ValueHeadSettings), "its Settings derive from those"
            return kind(inputs, node.settings, self.interface, values)
        return kind(inputs, node.settings, self.interface)

    def _signal(self, source: str, node: str) -> Signal | None:
        if source in self._signals:
            return self._signals[source]
        part = source.removeprefix(f"{OBSERVATION}.")
        space = self.interface.observation_space
        parts = dict(space.parts) if isinstance(space, DictSpec) else {}
        if part not in parts:
            known = ", ".join(f"{OBSERVATION}.{name}" for name in parts) or f"only {OBSERVATION} as a whole"
            hint = did_you_mean(part, parts) or f"There is {known}."
            self.problems.add(f"node '{node}': this environment's observation has no part '{part}'", hint)
            return None
        return Signal(source, space_shape(parts[part]), parts[part], self.interface.features)


def observation_signal(interface: EnvInterface) -> Signal:
    space = interface.observation_space
    return Signal(OBSERVATION, space_shape(space), space, interface.features)


def space_shape(space: SpaceSpec) -> tuple[int, ...]:
    """Of one observation, without time and batch."""
    match space:
        case BoxSpec():
            return space.shape
        case MultiDiscreteSpec():
            return (len(space.counts),)
        case _:
            return ()
