"""Critics of SAC and TD3: the way of a graph to its node `value`, with the action read on that way.

The first layers on the way (linear, mlp, residual, or the value head itself) read the action too: it stands behind
their input, scaled to [-1, 1]. For discrete actions nothing is read; there is one value for each action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec
from palaestra.policies.base import Policy
from palaestra.policies.build import Graph, find_policy, read_settings
from palaestra.policies.components.base import Signal
from palaestra.policies.components.dense import Linear, Mlp, Residual
from palaestra.policies.components.heads import ValueHead
from palaestra.policies.components.shaping import Merge, MergeSettings
from palaestra.policies.graph import OBSERVATION_SLOT, begin, compile_calls
from palaestra.policies.graph_nodes import ACTIONS, NodeBuilder, Purpose
from palaestra.policies.graph_spec import OBSERVATION, GraphSpec, NodeSpec, read_graph, sorted_nodes, without_action

if TYPE_CHECKING:
    from palaestra.config.policy import PolicyConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.base import Observation
    from palaestra.policies.components.base import Component

DENSE = (Linear, Mlp, Residual, ValueHead)
ACTIONS_SLOT = OBSERVATION_SLOT + 1


class GraphCritic(nn.Module):
    """Parameters are called as in the policy: `nodes.critic.layers.0.weight`."""

    def __init__(self, spec: GraphSpec, interface: EnvInterface) -> None:
        super().__init__()
        space = interface.action_space
        self.reads_actions = isinstance(space, BoxSpec)
        spec = without_action(spec)
        if isinstance(space, BoxSpec):
            purpose = Purpose("deterministic_actor", actions=Signal(ACTIONS, (space.size,)))
        else:
            assert isinstance(space, DiscreteSpec), "policies.roles has refused other spaces"
            purpose = Purpose("stochastic_actor", values=space.count)
        self.spec, nodes = build_with_actions(spec, NodeBuilder(spec.name, interface, purpose))
        self.nodes = nn.ModuleDict(nodes)
        sources = self.spec.sources
        given = {OBSERVATION: OBSERVATION_SLOT, ACTIONS: ACTIONS_SLOT}
        self._calls, slots = compile_calls(self.nodes, sources, sorted_nodes(sources), given)
        self._value_slot = slots["value"]

    def forward(self, observation: Observation, actions: Tensor | None = None) -> Tensor:
        """[T, B] of an observation [T, B, …] and actions [T, B, size]; without actions [T, B, count]."""
        values, steps = begin(observation, {}, None)
        values.append(None if actions is None else actions.flatten(0, 1))
        for run, sources in self._calls:
            values.append(run(values[sources]) if isinstance(sources, int) else run(*[values[at] for at in sources]))
        found: Tensor = values[self._value_slot]
        shape = (steps.time_count, steps.batch_count)
        return found.view(shape) if self.reads_actions else found.view(*shape, -1)


def build_critics(config: PolicyConfig, interface: EnvInterface, count: int) -> nn.ModuleList:
    """`count` critics of the configured network, each with weights of its own from torch's global generator."""
    source = find_policy(config)
    if isinstance(source, Graph):
        spec = read_graph(source.name, source.data, config.settings)
        return nn.ModuleList(GraphCritic(spec, interface) for _ in range(count))
    if source.make_critic.__func__ is Policy.make_critic.__func__:  # type: ignore[attr-defined]
        raise UsageError(
            f"policy={config}: the class {source.__name__} has no critic, which this algorithm needs.",
            "Give it a classmethod make_critic(interface, settings) that returns a torch.nn.Module "
            "(see palaestra.policies.base.Policy), or take algorithm=ppo.",
        )
    settings = read_settings(source, config)
    return nn.ModuleList(source.make_critic(interface, settings) for _ in range(count))


def build_with_actions(spec: GraphSpec, builder: NodeBuilder) -> tuple[GraphSpec, dict[str, Component]]:
    """The graph in which the first layers on every way to `value` read the action, if there is one; and its nodes."""
    by_name = {node.name: node for node in spec.nodes}
    nodes: list[NodeSpec] = []
    reading: set[str] = set()  # nodes to which the action has come
    for name in sorted_nodes(spec.sources):
        node = by_name[name]
        if not reading.isdisjoint(node.sources):
            reading.add(name)
        elif builder.purpose.actions is not None and _is_dense(node, builder):
            merge = NodeSpec(f"{name}_inputs", "merge", Merge, (*node.sources, ACTIONS), MergeSettings(how="concat"))
            node = NodeSpec(name, node.kind, node.component, (merge.name,), node.settings)
            nodes.append(merge)
            builder.add(merge)
            reading.add(name)
        nodes.append(node)
        builder.add(node)
    builder.problems.raise_if_any()
    return GraphSpec(spec.name, tuple(nodes)), builder.built


def _is_dense(node: NodeSpec, builder: NodeBuilder) -> bool:
    """A layer that reads a vector; others read pictures or tokens."""
    inputs = builder.inputs_of(node)
    return inputs is not None and issubclass(node.component, DENSE) and len(inputs[0].shape) == 1
