"""A graph of components as a policy: built once in order, then run as a plain list of calls."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from palaestra.core.errors import did_you_mean
from palaestra.core.spaces import BoxSpec, DictSpec, EnvInterface, MultiDiscreteSpec, SpaceSpec
from palaestra.policies.base import Intent, Memory, Observation, Policy, PolicyOutput
from palaestra.policies.components.base import Component, MemoryComponent, Misfit, Signal, Steps
from palaestra.policies.components.heads import Head, ValueHead, ValueHeadSettings
from palaestra.policies.graph_spec import OBSERVATION, GraphSpec, NodeSpec, Problems, reach, sorted_nodes, without_value
from palaestra.policies.role_distributions import ActionValues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palaestra.config.policy import Role
    from palaestra.policies.distributions import Distribution

    Call = tuple[Callable[..., Any], int | tuple[int, ...]]

STEPS_SLOT, OBSERVATION_SLOT = 0, 1  # what every plan starts from
ACTIONS = "(actions)"  # what critics read beside the observation; no node can have this name


@dataclass(frozen=True)
class Purpose:
    """What nodes are built for."""

    role: Role = "actor_critic"
    actions: Signal | None = None  # of a critic: what ACTIONS stands for
    values: int = 1  # numbers that the node `value` gives


class GraphPolicy(Policy):
    """Nodes work on rows [T * B, …]; only memory knows about time.

    In another role than actor_critic the graph has no node `value`, nor those that only it needs: DQN and PQN have
    action values instead, the critics of SAC and TD3 are networks of their own (`palaestra.policies.critics`).
    """

    def __init__(self, spec: GraphSpec, interface: EnvInterface, role: Role = "actor_critic") -> None:
        super().__init__()
        self.role = role
        self.spec = spec = spec if role == "actor_critic" else without_value(spec)
        self.nodes = nn.ModuleDict(build_nodes(spec, interface, Purpose(role)))
        self._distribution = cast("Head", self.nodes["action"]).distribution
        self._memory_shapes = {
            name: shape
            for node in self.nodes.values()
            if isinstance(node, MemoryComponent)
            for name, shape in node.memory_shapes.items()
        }
        everything = sorted_nodes(spec.sources)
        self._plan = self._compile(everything)
        self._act_plan = self._compile([name for name in everything if name in self._needed_to_act()])

    def _compile(self, names: list[str]) -> tuple[list[Call], int, int]:
        """Calls in order; the slots of action and value (0: not computed)."""
        calls, slots = compile_calls(self.nodes, self.spec.sources, names, {OBSERVATION: OBSERVATION_SLOT})
        return calls, slots["action"], slots.get("value", 0)

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:
        calls, action, value = self._plan
        values, steps = begin(observation, memory, starts)
        for run, sources in calls:
            values.append(run(values[sources]) if isinstance(sources, int) else run(*[values[at] for at in sources]))
        shape = (steps.time_count, steps.batch_count)
        head = self._distribution(values[action].view(*shape, -1))
        return PolicyOutput(head, values[value].view(shape) if value else _value_of(head, shape), steps.next_memory)

    def act(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> Intent:
        calls, action, value = self._act_plan
        values, steps = begin(observation, memory, starts)
        for run, sources in calls:
            values.append(run(values[sources]) if isinstance(sources, int) else run(*[values[at] for at in sources]))
        shape = (steps.time_count, steps.batch_count)
        head = self._distribution(values[action].view(*shape, -1))
        return Intent(head, steps.next_memory, values[value].view(shape) if value else None)

    def initial_memory(self, batch_size: int) -> Memory:
        device = next(self.parameters()).device
        return {name: torch.zeros(batch_size, *shape, device=device) for name, shape in self._memory_shapes.items()}

    def _needed_to_act(self) -> set[str]:
        """All of it where actor and critic share weights; else without the critic, but with all that remembers."""
        sources = self.spec.sources
        actor, critic = reach(["action"], sources), reach(["value"], sources)
        if any(list(self.nodes[name].parameters()) for name in actor & critic):
            return actor | critic
        remembering = [name for name, node in self.nodes.items() if isinstance(node, MemoryComponent)]
        return actor | reach(remembering, sources)


def compile_calls(
    nodes: nn.ModuleDict, sources: Mapping[str, tuple[str, ...]], names: list[str], given: Mapping[str, int]
) -> tuple[list[Call], dict[str, int]]:
    """Calls in order, each with the slots it reads; the slot of every node. `given`: slots that hold inputs."""
    slots = dict(given)
    first = max(slots.values())
    calls: list[Call] = []
    for name in names:
        node = cast("Component", nodes[name])
        for source in sources[name]:
            if source not in slots:  # a part of the observation, wanted for the first time
                calls.append((itemgetter(source.removeprefix(f"{OBSERVATION}.")), OBSERVATION_SLOT))
                slots[source] = first + len(calls)
        reads = tuple(slots[source] for source in sources[name])
        if isinstance(node, MemoryComponent):
            reads = (*reads, STEPS_SLOT)
        calls.append((node.forward, reads[0] if len(reads) == 1 else reads))
        slots[name] = first + len(calls)
    return calls, slots


def _value_of(distribution: Distribution, shape: tuple[int, int]) -> Tensor:
    """Of the greedy policy where there are action values; an actor without a critic has none, which is 0 here."""
    if isinstance(distribution, ActionValues):
        return distribution.value()
    return torch.zeros(shape)


def begin(observation: Observation, memory: Memory, starts: Tensor | None) -> tuple[list[Any], Steps]:
    if isinstance(observation, Tensor):
        time_count, batch_count = observation.shape[:2]
        rows: Any = observation.flatten(0, 1)
    else:
        time_count, batch_count = next(iter(observation.values())).shape[:2]
        rows = {name: part.flatten(0, 1) for name, part in observation.items()}
    steps = Steps(time_count, batch_count, memory, starts)
    return [steps, rows], steps


def build_nodes(
    spec: GraphSpec,
    interface: EnvInterface,
    purpose: Purpose = Purpose(),  # noqa: B008  frozen
) -> dict[str, Component]:
    """Every node, in the order written as far as their sources allow; whatever does not fit is said at once."""
    problems = Problems(f"The graph '{spec.name}'")
    by_name = {node.name: node for node in spec.nodes}
    signals: dict[str, Signal | None] = {OBSERVATION: observation_signal(interface), ACTIONS: purpose.actions}
    built: dict[str, Component] = {}
    for name in sorted_nodes(spec.sources):
        node = by_name[name]
        inputs = [signal_of(source, signals, interface, name, problems) for source in node.sources]
        known = tuple(signal for signal in inputs if signal is not None)
        component = _build(node, known, interface, purpose, problems) if len(known) == len(inputs) else None
        signals[name] = None
        if component is not None:
            built[name] = component
            signals[name] = Signal(name, component.output.shape, component.output.space, component.output.features)
    problems.raise_if_any()
    return built


def _build(
    node: NodeSpec, inputs: tuple[Signal, ...], interface: EnvInterface, purpose: Purpose, problems: Problems
) -> Component | None:
    ends: dict[str, type[Component]] = {"action": Head, "value": ValueHead}
    wanted = ends.get(node.name)
    if wanted is not None and not issubclass(node.component, wanted):
        kinds = "an action_head or an action_embedding_head" if node.name == "action" else "a value_head"
        problems.add(f"node '{node.name}': is of type {node.kind}, but must be {kinds}")
        return None
    try:
        component = _construct(node, inputs, interface, purpose)
    except Misfit as misfit:
        problems.add(f"node '{node.name}': {misfit}")
        return None
    if isinstance(component, MemoryComponent):
        component.name_memory(node.name)
    return component


def _construct(node: NodeSpec, inputs: tuple[Signal, ...], interface: EnvInterface, purpose: Purpose) -> Component:
    role = purpose.role
    if role == "actor_critic":
        return node.component(inputs, node.settings, interface)
    if issubclass(node.component, Head):
        if role not in node.component.roles:
            raise Misfit(f"{node.kind} does not serve the role {role}; its roles: {', '.join(node.component.roles)}")
        return node.component(inputs, node.settings, interface, role)
    if issubclass(node.component, MemoryComponent):
        raise Misfit(f"{node.kind} has memory, and this algorithm learns from single steps; take algorithm=ppo")
    if issubclass(node.component, ValueHead) and purpose.values > 1:
        assert isinstance(node.settings, ValueHeadSettings), "its Settings derive from those"
        component: Component = node.component(inputs, node.settings, interface, purpose.values)
    else:
        component = node.component(inputs, node.settings, interface)
    if "gain" not in node.settings.model_fields_set:
        for layer in component.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.reset_parameters()  # as torch draws them by default
    return component


def signal_of(
    source: str, signals: dict[str, Signal | None], interface: EnvInterface, node: str, problems: Problems
) -> Signal | None:
    if source in signals:
        return signals[source]
    part = source.removeprefix(f"{OBSERVATION}.")
    space = interface.observation_space
    parts = dict(space.parts) if isinstance(space, DictSpec) else {}
    if part not in parts:
        known = ", ".join(f"{OBSERVATION}.{name}" for name in parts) or f"only {OBSERVATION} as a whole"
        hint = did_you_mean(part, parts) or f"There is {known}."
        problems.add(f"node '{node}': this environment's observation has no part '{part}'", hint)
        return None
    return Signal(source, space_shape(parts[part]), parts[part], interface.features)


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
