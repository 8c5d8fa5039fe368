"""A graph of components as layers, tables and cells; or the reason why it is none.

A sum is not computed by anybody: what it adds up writes to the same slot, and so does what an activation bends. Vectors
side by side stay where they are: who reads them reads each with its own columns of weights.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from palaestra.core.spaces import BoxSpec, DictSpec
from palaestra.policies.activations import unchanged
from palaestra.policies.components.codes import Codes
from palaestra.policies.components.dense import Linear, Mlp
from palaestra.policies.components.heads import ActionHead, ValueHead
from palaestra.policies.components.observe import Vector
from palaestra.policies.components.recurrent import Recurrent
from palaestra.policies.components.shaping import Activation, Flatten, Merge
from palaestra.policies.graph_order import sorted_nodes
from palaestra.policies.graph_spec import OBSERVATION
from palaestra.training.engines.cell_plan import plan_cell
from palaestra.training.engines.codes import Unfit, part_of, plan_input
from palaestra.training.engines.module_plan import NetworkPlan, Slots, Target

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.core.spaces import SpaceSpec
    from palaestra.policies.graph import GraphPolicy


def plan_graph(network: GraphPolicy, space: SpaceSpec, flat: Tensor) -> NetworkPlan:
    if isinstance(space, DictSpec) and not all(_is_bytes(part) for _, part in space.parts):
        raise Unfit("observations with named parts that are not bytes")
    part = _vector_part(network, space)
    size = 0 if part is None else plan_input(part_of(space, part)).size
    plan = NetworkPlan(sizes=[size], flat=flat, part=part)
    walk = _Walk(network, plan)
    for name in sorted_nodes(network.spec.sources):
        walk.take(name)
    plan.action_slot, plan.value_slot = walk.slots["action"][0], walk.slots["value"][0]
    return plan


def _is_bytes(space: SpaceSpec) -> bool:
    return isinstance(space, BoxSpec) and space.dtype == "uint8"


def _part(source: str) -> str:
    """The part's name in the tape."""
    return source.removeprefix(OBSERVATION).removeprefix(".")


def _vector_part(network: GraphPolicy, space: SpaceSpec) -> str | None:
    """The part of the observation that is slot 0; None: none is read as numbers."""
    sources = network.spec.sources
    parts = sorted({_part(sources[name][0]) for name, node in network.nodes.items() if type(node) is Vector})
    if not parts:
        return None
    if isinstance(space, DictSpec) and parts == [""]:
        raise Unfit("an observation with named parts as one vector")
    if len(parts) > 1:
        raise Unfit(f"vectors of several parts of the observation: {' and '.join(parts)}")
    return parts[0]


def _ends_of_sums(network: GraphPolicy) -> dict[str, str]:
    """From each node that only adds to a sum, or is only bent by an activation, to the node at the end of that."""
    sources = network.spec.sources
    reads = Counter(source for names in sources.values() for source in names)
    ends: dict[str, str] = {}
    for reader in reversed(sorted_nodes(sources)):
        if not _takes_sums(network.nodes[reader]):
            continue
        for source in sources[reader]:
            if reads[source] == 1 and source in network.nodes and _is_plain_sum(network.nodes[source]):
                ends[source] = ends.get(reader, reader)
    return ends


def _takes_sums(node: Any) -> bool:
    return type(node) is Activation or (type(node) is Merge and node.how == "add")


def _is_plain_sum(node: Any) -> bool:
    """Something that may be added to without being changed."""
    if type(node) is Linear:
        return node.activation is unchanged and len(node.output.shape) == 1
    return type(node) is Codes or (type(node) is Merge and node.how == "add")


class _Walk:
    """Every node after its sources."""

    def __init__(self, network: GraphPolicy, plan: NetworkPlan) -> None:
        self.network = network
        self.plan = plan
        self.slots: dict[str, Slots] = {}
        self._ends = _ends_of_sums(network)
        self._targets: dict[str, Target] = {}  # by the node at the end of a sum

    def take(self, name: str) -> None:
        node: Any = self.network.nodes[name]
        names = self.network.spec.sources[name]
        if type(node) is Codes:
            self.plan.add_codes(self._target(name, node), node, _part(names[0]))
        elif type(node) is Vector:
            self.slots[name] = (0,)
            return
        elif _takes_sums(node):
            self._refuse_no_sum(name, names)
        elif type(node) is Merge and node.how == "concat":
            self.slots[name] = tuple(slot for source in names for slot in self._read(name, source))
            return
        else:
            self.slots[name] = self._layers(name, node, self._read(name, names[0]))
            return
        self.slots[name] = (self._targets[self._ends.get(name, name)].slot,)

    def _read(self, name: str, source: str) -> Slots:
        if source not in self.slots:
            raise Unfit(f"node '{name}', of type {type(self.network.nodes[name]).__name__.lower()}")
        return self.slots[source]

    def _target(self, name: str, node: Any) -> Target:
        """Where the node adds to: a slot of its own, or the one of the sum that it is a part of."""
        end = self._ends.get(name, name)
        if end not in self._targets:
            last: Any = self.network.nodes[end]
            activation = last.function if type(last) is Activation else getattr(last, "activation", unchanged)
            self._targets[end] = Target(self.plan.new_slot(node.output.shape[0]), activation)
        return self._targets[end]

    def _refuse_no_sum(self, name: str, names: tuple[str, ...]) -> None:
        for source in names:
            if self._ends.get(source) != self._ends.get(name, name):
                what = "an activation" if type(self.network.nodes[name]) is Activation else "a sum"
                raise Unfit(f"node '{name}', {what} of '{source}', which is no linear layer or is read by others too")

    def _layers(self, name: str, node: Any, sources: Slots) -> Slots:
        """The slots in which the node's output is."""
        plan, kind = self.plan, type(node)
        if kind is Flatten:
            return sources
        if kind is Mlp:
            for layer in node.layers:
                sources = (plan.add(sources, layer.weight, layer.bias, node.activation),)
            return sources
        if kind is Linear and len(node.output.shape) == 1:
            target = self._target(name, node)
            plan.add_to(target, sources, node.layer.weight, node.layer.bias)
            return (target.slot,)
        if isinstance(node, Recurrent):
            cell = plan_cell(node.cell)
            if cell is not None:
                return (plan.add_cell(sources, cell, node.names),)
        if kind is ValueHead or kind is ActionHead:
            return (self._head(name, node, sources),)
        raise Unfit(f"node '{name}', of type {kind.__name__.lower()}")

    def _head(self, name: str, node: Any, sources: Slots) -> int:
        if type(node) is ActionHead:
            if node.is_wide or node.settings.squash:
                raise Unfit(f"{'state_dependent_std' if node.is_wide else 'squash'}=true of node '{name}'")
            if node.log_std is not None:
                self.plan.log_std = self.plan.place(node.log_std)
        return self.plan.add(sources, node.layer.weight, node.layer.bias, unchanged)
