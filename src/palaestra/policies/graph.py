"""A graph of components as a policy: built once in order, then run as a plain list of calls."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from palaestra.policies.base import Intent, Memory, Observation, Policy, PolicyOutput
from palaestra.policies.components.base import Component, MemoryComponent, Steps
from palaestra.policies.graph_nodes import Purpose, build_nodes
from palaestra.policies.graph_spec import OBSERVATION, GraphSpec, reach, sorted_nodes, without_value
from palaestra.policies.role_distributions import ActionValues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palaestra.config.policy import Role
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.components.heads import Head
    from palaestra.policies.distributions import Distribution

    Call = tuple[Callable[..., Any], int | tuple[int, ...]]

STEPS_SLOT, OBSERVATION_SLOT = 0, 1  # what every plan starts from


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
