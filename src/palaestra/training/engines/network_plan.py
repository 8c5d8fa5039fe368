"""A policy as a list of layers, tables and cells, for the native engine; or the reason why it is none.

Slot 0 is the observation as one vector. Every layer reads one slot and adds to another: towers side by side, a trunk
with two heads, sums, or anything between. Weights are told by their places in the optimiser's flat block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from palaestra.core.spaces import BoxSpec
from palaestra.policies.activations import unchanged
from palaestra.policies.graph import GraphPolicy
from palaestra.policies.library.mlp import MlpPolicy
from palaestra.training.engines.codes import Unfit, plan_input
from palaestra.training.engines.graph_plan import plan_graph
from palaestra.training.engines.module_plan import NetworkPlan

if TYPE_CHECKING:
    from palaestra.policies.agent import Agent


def plan_network(agent: Agent, flat: Tensor) -> NetworkPlan:
    """`flat`: the optimiser's block, of which the agent's parameters are views."""
    if agent.feature_map is not None:
        raise Unfit("an environment whose features have names")
    network = agent.network
    if type(network) is MlpPolicy:
        plan = _towers(network, agent, flat)
    elif type(network) is GraphPolicy:
        plan = plan_graph(network, agent.interface.observation_space, flat)
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
            slot = plan.add((slot,), layer.weight, layer.bias, tower.activation)
        ends.append(plan.add((slot,), last.weight, last.bias, unchanged))
    plan.action_slot, plan.value_slot = ends
    if network.log_std is not None:
        plan.log_std = plan.place(network.log_std)
    return plan
