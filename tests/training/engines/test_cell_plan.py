import numpy as np
import pytest
import torch

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.config.policy import PolicyConfig
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.build import build_policy
from palaestra.policies.memory.fused import GruCell, LstmCell
from palaestra.policies.memory.mingru import MinGruCell
from palaestra.training.engines.cell_plan import CellCode, plan_cell
from palaestra.training.engines.codes import Unfit
from palaestra.training.engines.network_plan import plan_network

GRAPH = """
schema_version: 1
summary: two memories behind one another
nodes:
  input:  {{type: vector, source: observation}}
  early:  {{type: {kind}, source: input, size: 6}}
  late:   {{type: mingru, source: early, size: 3}}
  action: {{type: action_head, source: late, gain: 1.0}}
  value:  {{type: value_head, source: early}}
"""


def planned(kind):
    interface = EnvInterface(BoxSpec((5,)), DiscreteSpec(3), ())
    agent = build_policy(PolicyConfig(graph=GRAPH.format(kind=kind)), interface)
    return agent, plan_network(agent, FlatOptimizer(agent).flat)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(code, gates, across, state):
    """One step of a cell as its authors write it: gates and the hidden state's share of them [n, size]; both states."""
    hidden, inner = state
    if code == CellCode.MINGRU:
        share = sigmoid(gates[0])
        return (1 - share) * hidden + share * gates[1], inner
    if code == CellCode.LSTM:
        enter, stay, _, leave = sigmoid(gates + across)
        inner = stay * inner + enter * np.tanh(gates[2] + across[2])
        return leave * np.tanh(inner), inner
    reset, update, _ = sigmoid(gates + across)
    fresh = np.tanh(gates[2] + reset * across[2])
    return (1 - update) * fresh + update * hidden, inner


def follow(plan, sequence):
    """The plan written out for one environment, [T, 5] -> logits [T, 3] and values [T], number by number."""
    flat, states = plan.flat.double().numpy(), {}

    def matrix(place, rows, columns):
        return flat[place : place + rows * columns].reshape(rows, columns)

    def one_step(seen):
        slots = {0: seen}
        for source, target, inputs, outputs, weight, _, bias, _ in plan.layers:
            slots[target] = matrix(weight, outputs, inputs) @ slots[source] + flat[bias : bias + outputs]
            for code, gates, hidden_slot, size, across, across_bias in plan.cells:
                if gates != target:
                    continue
                state = states.get(gates, (np.zeros(size), np.zeros(size)))
                share = np.zeros(outputs)
                if code != CellCode.MINGRU:
                    share = matrix(across, outputs, size) @ state[0] + flat[across_bias : across_bias + outputs]
                states[gates] = step(code, slots[target].reshape(-1, size), share.reshape(-1, size), state)
                slots[hidden_slot] = states[gates][0]
        return slots[plan.action_slot], slots[plan.value_slot][0]

    return [one_step(seen) for seen in sequence]


@pytest.mark.parametrize("kind", ["mingru", "lstm", "gru"])
def test_following_the_plan_gives_what_the_network_gives(kind):
    agent, plan = planned(kind)
    with torch.no_grad():
        plan.flat.add_(torch.randn_like(plan.flat) * 0.3)  # also where training begins with zeros
        sequence = torch.randn(9, 1, 5)
        distribution, value, _ = agent(sequence, agent.initial_memory(1))
    told = follow(plan, sequence[:, 0].double().numpy())
    logits = torch.log_softmax(torch.tensor(np.array([each[0] for each in told])), dim=-1)
    assert torch.allclose(logits, distribution.log_probs[:, 0].double(), atol=1e-5)
    assert np.allclose([each[1] for each in told], value[:, 0].numpy(), atol=1e-5)


def test_the_parts_of_memory_are_named_in_the_order_of_the_cells():
    _, plan = planned("lstm")
    assert plan.memory == ["early.hidden", "early.cell", "late.hidden"]
    assert [cell[0] for cell in plan.cells] == [CellCode.LSTM, CellCode.MINGRU]


@pytest.mark.parametrize(
    ("cell", "code", "rows"),
    [(MinGruCell(4, 3), CellCode.MINGRU, 6), (LstmCell(4, 3), CellCode.LSTM, 12), (GruCell(4, 3), CellCode.GRU, 9)],
)
def test_cells_are_told_apart(cell, code, rows):
    plan = plan_cell(cell)
    assert (plan.code, plan.size, tuple(plan.weight.shape)) == (code, 3, (rows, 4))
    assert (plan.across is None) is (code is CellCode.MINGRU)


class OwnCell(LstmCell):
    """Could do anything in its forward."""


def test_a_cell_of_ones_own_is_not_taken_for_its_parent():
    assert plan_cell(OwnCell(4, 3)) is None
    agent, plan = planned("lstm")
    agent.network.nodes["early"].cell = OwnCell(5, 6)
    with pytest.raises(Unfit, match="node 'early', of type lstm"):
        plan_network(agent, plan.flat)
