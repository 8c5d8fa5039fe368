"""Describes a policy for the native engine, or says what in it the engine does not support."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from palaestra.core.spaces import BoxSpec, DictSpec
from palaestra.policies.activations import unchanged
from palaestra.policies.components.codes import Codes
from palaestra.policies.components.dense import Linear, Mlp, Residual
from palaestra.policies.components.heads import ActionHead, ValueHead
from palaestra.policies.components.observe import Vector
from palaestra.policies.components.recurrent import Recurrent
from palaestra.policies.components.shaping import Activation, Flatten, Merge, Norm
from palaestra.policies.graph import GraphPolicy
from palaestra.policies.graph_nodes import ACTIONS
from palaestra.policies.graph_spec import OBSERVATION, sorted_nodes
from palaestra.policies.library.mlp import MlpPolicy
from palaestra.training.engines.network_plan import Unsupported, part_of, plan_input
from palaestra.training.engines.plan_builder import PlanBuilder, Slots, Target, cell_parameters

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface, SpaceSpec
    from palaestra.policies.agent import Agent
    from palaestra.policies.critics import GraphCritic
    from palaestra.training.engines.network_plan import NetworkPlan

OBSERVED, ACTED = -1, -2  # stand for the columns of a critic's slot 0 until a concatenation reads both


def plan_policy(agent: Agent, flat: Tensor) -> NetworkPlan:
    """`flat`: the optimizer's array, of which the agent's parameters are views. Raises Unsupported.

    Only PPO's networks have a value, and those of `dqn.dueling`: Q is then the value plus the action slot's advantages
    minus their mean. The action slot of a stochastic actor in a box holds means, then logarithms of deviations.
    """
    if agent.feature_map is not None:
        raise Unsupported("an environment whose features have names")
    network, space = agent.network, agent.interface.observation_space
    if type(network) is MlpPolicy:
        builder = _plan_mlp(network, space, flat)
    elif type(network) is GraphPolicy:
        builder = plan_graph(network, space, flat)
    else:
        raise Unsupported(f"a network of class {type(network).__name__}")
    plan, actions = builder.plan, agent.interface.action_space
    _check_all_used(builder, actions.size if isinstance(actions, BoxSpec) and plan.log_std_offset is not None else 0)
    return plan


def plan_critic(critic: GraphCritic, interface: EnvInterface, flat: Tensor) -> NetworkPlan:
    """`flat`: the array of which this critic's parameters are views. Raises Unsupported.

    Slot 0 is the observation and, for continuous actions, the action behind it. The value slot has one number, for
    discrete actions one for each.
    """
    builder = plan_graph(critic, interface.observation_space, flat, interface.action_space)
    _check_all_used(builder)
    return builder.plan


def _check_all_used(builder: PlanBuilder, others: int = 0) -> None:
    if builder.used_parameters + others != builder.flat.numel():
        raise Unsupported("weights that are shared between layers, or not used")


def _plan_mlp(network: MlpPolicy, space: SpaceSpec, flat: Tensor) -> PlanBuilder:
    builder = PlanBuilder(plan_input(space).size, flat)
    outputs = []
    for tower in (network.actor, network.critic):
        slot = 0
        *hidden, last = [layer for layer in tower.layers if isinstance(layer, nn.Linear)]
        for layer in hidden:
            slot = builder.add_layer((slot,), layer, tower.activation)
        outputs.append(builder.add_layer((slot,), last))
    builder.plan.action_slot, builder.plan.value_slot = outputs
    if network.log_std is not None:
        builder.plan.log_std_offset = builder.offset_of(network.log_std)
    return builder


def plan_graph(
    network: GraphPolicy | GraphCritic, space: SpaceSpec, flat: Tensor, actions: SpaceSpec | None = None
) -> PlanBuilder:
    """A graph of components as layers, tables and cells. `actions`: of a critic, which reads them if they are a box.

    A sum needs no layer of its own: its terms add to the same slot, and so does the input of an activation. Terms that
    others read too, or that have an activation, are added as they are. A concatenation stays where it is: its readers
    read each source with its own columns of weights.
    """
    if isinstance(space, DictSpec) and not all(_is_bytes(part) for _, part in space.parts):
        raise Unsupported("observations with named parts that are not bytes")
    part = _vector_part(network, space)
    size = 0 if part is None else plan_input(part_of(space, part)).size
    action_size = actions.size if isinstance(actions, BoxSpec) else 0
    graph = _GraphPlanner(network, PlanBuilder(size + action_size, flat, part), reads_actions=action_size > 0)
    for name in sorted_nodes(network.spec.sources):
        graph.add_node(name)
    plan = graph.builder.plan
    for name, slots in graph.slots.items():
        if name == "action":
            plan.action_slot = slots[0]
        if name == "value":
            plan.value_slot = slots[0]
    return graph.builder


def _is_bytes(space: SpaceSpec) -> bool:
    return isinstance(space, BoxSpec) and space.dtype == "uint8"


def _part(source: str) -> str:
    """The part's name in the rollout buffer."""
    return source.removeprefix(OBSERVATION).removeprefix(".")


def _vector_part(network: GraphPolicy | GraphCritic, space: SpaceSpec) -> str | None:
    """The part of the observation in slot 0; None if no node reads a vector."""
    sources = network.spec.sources
    parts = sorted({_part(sources[name][0]) for name, node in network.nodes.items() if type(node) is Vector})
    if not parts:
        return None
    if isinstance(space, DictSpec) and parts == [""]:
        raise Unsupported("an observation with named parts as one vector")
    if len(parts) > 1:
        raise Unsupported(f"vectors of several parts of the observation: {' and '.join(parts)}")
    return parts[0]


def _last_nodes_of_sums(network: GraphPolicy | GraphCritic) -> dict[str, str]:
    """From each node that is only a term of a sum, or only read by an activation, to the last node of that sum."""
    sources = network.spec.sources
    reads = Counter(source for names in sources.values() for source in names)
    last_nodes: dict[str, str] = {}
    for reader in reversed(sorted_nodes(sources)):
        if not _continues_sum(network.nodes[reader]):
            continue
        for source in sources[reader]:
            if reads[source] == 1 and source in network.nodes and _is_plain_sum(network.nodes[source]):
                last_nodes[source] = last_nodes.get(reader, reader)
    return last_nodes


def _continues_sum(node: Any) -> bool:
    return type(node) is Activation or (type(node) is Merge and node.how == "add")


def _is_plain_sum(node: Any) -> bool:
    """Whether other terms can be added to the node's output before anything else is applied to it."""
    if type(node) is Linear:
        return node.activation is unchanged and len(node.output.shape) == 1
    return type(node) is Codes or (type(node) is Merge and node.how == "add")


class _GraphPlanner:
    """Adds nodes to a plan, every node after its sources."""

    def __init__(self, network: GraphPolicy | GraphCritic, builder: PlanBuilder, *, reads_actions: bool) -> None:
        self.network = network
        self.builder = builder
        self.slots: dict[str, Slots] = {}  # of the nodes' outputs
        self._vector: Slots = (0,)
        if reads_actions:
            has_vector = builder.plan.input_part is not None
            self._vector = (OBSERVED,)
            self.slots[ACTIONS] = (ACTED if has_vector else 0,)
        self._last_nodes = _last_nodes_of_sums(network)
        self._targets: dict[str, Target] = {}  # by the last node of a sum

    def add_node(self, name: str) -> None:
        node: Any = self.network.nodes[name]
        names = self.network.spec.sources[name]
        if type(node) is Codes:
            self.builder.add_table(self._target(name, node), node, _part(names[0]))
        elif type(node) is Vector:
            self.slots[name] = self._vector
            return
        elif _continues_sum(node):
            self._add_terms(name, node, names)
        elif type(node) is Merge and node.how == "concat":
            self.slots[name] = _joined(tuple(slot for source in names for slot in self._slots_of(name, source)))
            return
        else:
            self.slots[name] = self._add_layers(name, node, self._read(name, names[0]))
            return
        self.slots[name] = (self._targets[self._last_nodes.get(name, name)].slot,)

    def _slots_of(self, name: str, source: str) -> Slots:
        if source not in self.slots:
            raise Unsupported(f"node '{name}', of type {type(self.network.nodes[name]).__name__.lower()}")
        return self.slots[source]

    def _read(self, name: str, source: str) -> Slots:
        slots = self._slots_of(name, source)
        if min(slots) < 0:
            raise Unsupported(f"node '{name}' of the critic, which reads the observation or the action alone")
        return slots

    def _target(self, name: str, node: Any) -> Target:
        """What the node adds to: a slot of its own, or the slot of its sum."""
        last_name = self._last_nodes.get(name, name)
        if last_name not in self._targets:
            last: Any = self.network.nodes[last_name]
            activation = last.function if type(last) is Activation else getattr(last, "activation", unchanged)
            self._targets[last_name] = Target(self.builder.new_slot(node.output.shape[0]), activation)
        return self._targets[last_name]

    def _add_terms(self, name: str, node: Any, names: tuple[str, ...]) -> None:
        """Add the terms of a sum, or the input of an activation, that do not add to it themselves."""
        for source in names:
            if self._last_nodes.get(source) == self._last_nodes.get(name, name):
                continue
            slots = self._read(name, source)
            if len(slots) > 1:
                raise Unsupported(f"node '{name}', which reads the concatenation '{source}'")
            self.builder.add_identity(self._target(name, node), slots[0])

    def _add_layers(self, name: str, node: Any, sources: Slots) -> Slots:
        """Returns the slots of the node's output."""
        builder, kind = self.builder, type(node)
        if kind is Flatten:
            return sources
        if kind is Mlp:
            return self._add_mlp(node, sources)
        if kind is Norm and len(node.output.shape) == 1:
            return (self._add_norm(name, node.norm, sources),)
        if kind is Residual:
            return self._add_residual(name, node, sources)
        if kind is Linear and len(node.output.shape) == 1:
            target = self._target(name, node)
            builder.add_to(target, sources, node.layer.weight, node.layer.bias)
            return (target.slot,)
        if isinstance(node, Recurrent):
            cell = cell_parameters(node.cell)
            if cell is not None:
                return (builder.add_cell(sources, cell, node.names),)
        if kind is ValueHead or kind is ActionHead:
            return (self._add_head(name, node, sources),)
        raise Unsupported(f"node '{name}', of type {kind.__name__.lower()}")

    def _add_mlp(self, node: Any, sources: Slots) -> Slots:
        for number, layer in enumerate(node.layers):
            norm = None if node.norms is None else node.norms[number]
            slot = self.builder.add_layer(sources, layer, node.activation, norm)
            sources = (self.builder.add_sum(*sources, slot) if node.residual and number else slot,)
        return sources

    def _add_norm(self, name: str, norm: nn.LayerNorm, sources: Slots) -> int:
        if len(sources) > 1:
            raise Unsupported(f"node '{name}', which normalises a concatenation")
        slot = self.builder.add_sum(*sources)
        self.builder.add_norm(slot, norm)
        return slot

    def _add_residual(self, name: str, node: Any, sources: Slots) -> Slots:
        for block in node.blocks:
            normalized = self._add_norm(name, block.norm, sources)
            widened = self.builder.add_layer((normalized,), block.widen, node.activation)
            slot = self.builder.add_sum(*sources)
            self.builder.add_to(Target(slot), (widened,), block.narrow.weight, block.narrow.bias)
            sources = (slot,)
        return sources

    def _add_head(self, name: str, node: Any, sources: Slots) -> int:
        if type(node) is ActionHead:
            is_actor_critic = node.role == "actor_critic"
            if node.settings.squash or (node.is_wide and is_actor_critic):
                raise Unsupported(f"{'state_dependent_std' if node.is_wide else 'squash'}=true of node '{name}'")
            if node.log_std is not None:
                self.builder.plan.log_std_offset = self.builder.offset_of(node.log_std)
            if node.state_value is not None:
                slot = self.builder.add_layer(sources, node.layer)
                self.builder.plan.value_slot = self.builder.add_layer(sources, node.state_value)
                return slot
        return self.builder.add_layer(sources, node.layer)


def _joined(slots: Slots) -> Slots:
    """The observation with the action behind it is slot 0."""
    joined: list[int] = []
    for slot in slots:
        if slot == ACTED and joined and joined[-1] == OBSERVED:
            joined[-1] = 0
        else:
            joined.append(slot)
    return tuple(joined)
