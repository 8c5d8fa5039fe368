"""A policy as a list of linear layers and cells, for the native engine; or the reason why it is none.

Slot 0 is the observation as one vector. Every layer reads one slot and writes another: towers side by side, a trunk
with two heads, or anything between. Weights are told by their places in the optimiser's flat block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.contracts.spaces import BoxSpec
from palaestra.policies.activations import unchanged
from palaestra.policies.components.dense import Linear, Mlp
from palaestra.policies.components.heads import ActionHead, ValueHead
from palaestra.policies.components.observe import Vector
from palaestra.policies.components.recurrent import Recurrent
from palaestra.policies.components.shaping import Activation, Flatten
from palaestra.policies.graph import GraphPolicy
from palaestra.policies.graph_order import sorted_nodes
from palaestra.policies.graph_spec import OBSERVATION
from palaestra.policies.library.mlp import MlpPolicy
from palaestra.policies.tanh import tanh
from palaestra.training.engines.cell_plan import CellPlan, plan_cell
from palaestra.training.engines.codes import ActivationCode, LayerPlan, Unfit, plan_input

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.policies.agent import Agent

CODES: dict[Callable[[Tensor], Tensor], ActivationCode] = {
    unchanged: ActivationCode.NONE,
    tanh: ActivationCode.TANH,
    torch.relu: ActivationCode.RELU,
    functional.gelu: ActivationCode.GELU,
}


@dataclass(kw_only=True)
class NetworkPlan(LayerPlan):
    """Made of torch's modules, whose parameters are views of the optimiser's block."""

    flat: Tensor  # all parameters, one behind the other
    covered: int = 0  # numbers of `flat` that something uses

    def add(self, source: int, weight: Tensor, bias: Tensor, activation: Callable[[Tensor], Tensor]) -> int:
        """The slot that a layer writes."""
        code = CODES.get(activation)
        if code is None:
            raise Unfit(f"the activation {getattr(activation, '__name__', activation)}")
        self.sizes.append(weight.shape[0])
        target = len(self.sizes) - 1
        outputs, inputs = weight.shape
        self.covered += weight.numel() + bias.numel()
        self.layers.append((source, target, inputs, outputs, self.place(weight), self.place(bias), int(code)))
        return target

    def add_cell(self, source: int, cell: CellPlan, names: tuple[str, ...]) -> int:
        """The slot that a cell writes: what it remembers after each step."""
        gates = self.add(source, cell.weight, cell.bias, unchanged)
        self.sizes.append(cell.size)
        target = len(self.sizes) - 1
        weight, bias = (0, 0) if cell.across is None else map(self.place, cell.across)
        self.cells.append((int(cell.code), gates, target, cell.size, weight, bias))
        self.memory.extend(names)
        self.covered += 0 if cell.across is None else sum(part.numel() for part in cell.across)
        return target

    def place(self, parameter: Tensor) -> int:
        bytes_before = parameter.data_ptr() - self.flat.data_ptr()
        assert 0 <= bytes_before <= self.flat.nbytes - parameter.nbytes, "every parameter is a view of the flat block"
        return bytes_before // self.flat.element_size()


def plan_network(agent: Agent, flat: Tensor) -> NetworkPlan:
    """`flat`: the optimiser's block, of which the agent's parameters are views."""
    if agent.feature_map is not None:
        raise Unfit("an environment whose features have names")
    network = agent.network
    if type(network) is MlpPolicy:
        plan = _towers(network, agent, flat)
    elif type(network) is GraphPolicy:
        plan = _graph(network, agent, flat)
    else:
        raise Unfit(f"a network of class {type(network).__name__}")
    spreads = plan.sizes[plan.action_slot] if isinstance(agent.interface.action_space, BoxSpec) else 0
    if plan.covered + spreads != flat.numel():
        raise Unfit("weights that are shared between layers, or not used")
    return plan


def _towers(network: MlpPolicy, agent: Agent, flat: Tensor) -> NetworkPlan:
    plan = NetworkPlan(sizes=[plan_input(agent.interface.observation_space).size], flat=flat)
    ends = []
    for tower in (network.actor, network.critic):
        slot = 0
        *hidden, last = [layer for layer in tower.layers if isinstance(layer, nn.Linear)]
        for layer in hidden:
            slot = plan.add(slot, layer.weight, layer.bias, tower.activation)
        ends.append(plan.add(slot, last.weight, last.bias, unchanged))
    plan.action_slot, plan.value_slot = ends
    if network.log_std is not None:
        plan.log_std = plan.place(network.log_std)
    return plan


def _graph(network: GraphPolicy, agent: Agent, flat: Tensor) -> NetworkPlan:
    plan = NetworkPlan(sizes=[plan_input(agent.interface.observation_space).size], flat=flat)
    slots = {OBSERVATION: 0}
    for name in sorted_nodes(network.spec.sources):
        sources = network.spec.sources[name]
        if len(sources) != 1 or sources[0] not in slots:
            raise Unfit(f"node '{name}', which reads {' and '.join(sources)}")
        slots[name] = _node(plan, name, network.nodes[name], slots[sources[0]])
    plan.action_slot, plan.value_slot = slots["action"], slots["value"]
    return plan


def _node(plan: NetworkPlan, name: str, node: Any, source: int) -> int:
    """The slot in which the node's output is."""
    kind = type(node)
    if kind is Vector and source == 0:
        return 0
    if kind is Flatten:
        return source
    if kind is Mlp:
        for layer in node.layers:
            source = plan.add(source, layer.weight, layer.bias, node.activation)
        return source
    if kind is Linear and node.layer.in_features == plan.sizes[source]:
        return plan.add(source, node.layer.weight, node.layer.bias, node.activation)
    if isinstance(node, Recurrent):
        cell = plan_cell(node.cell)
        if cell is not None:
            return plan.add_cell(source, cell, node.names)
    if kind is ValueHead:
        return plan.add(source, node.layer.weight, node.layer.bias, unchanged)
    if kind is ActionHead:
        if node.is_wide or node.settings.squash:
            raise Unfit(f"{'state_dependent_std' if node.is_wide else 'squash'}=true of node '{name}'")
        if node.log_std is not None:
            plan.log_std = plan.place(node.log_std)
        return plan.add(source, node.layer.weight, node.layer.bias, unchanged)
    what = "an activation of its own" if kind is Activation else f"of type {kind.__name__.lower()}"
    raise Unfit(f"node '{name}', {what}")
