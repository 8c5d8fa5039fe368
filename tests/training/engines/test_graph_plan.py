import numpy as np
import pytest
import torch

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.config.policy import PolicyConfig
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.policies.build import build_policy
from palaestra.training.engines.codes import NO_BIAS, ActivationCode, Unfit
from palaestra.training.engines.network_plan import plan_network

VIEW = BoxSpec((3, 4), "uint8", low=(0.0,) * 12, high=(6.0,) * 12)
COUNTS = BoxSpec((5,), "uint8", low=(0.0,) * 5, high=(255.0,) * 5)
BYTES = DictSpec((("cells", VIEW), ("self", COUNTS)))
NUMBERS = BoxSpec((5,))

HEADS = """
  action: {type: action_head, source: last, gain: 1.0}
  value:  {type: value_head, source: last}
"""
SUM = """
schema_version: 1
summary: what Arena's own network begins with
nodes:
  cells:  {type: codes, source: observation.cells, size: 7}
  counts: {type: codes, source: observation.self, size: 7, most: 3}
  bytes:  {type: vector, source: observation.self}
  amount: {type: linear, source: bytes, size: 7}
  sum:    {type: merge, source: [cells, counts, amount], how: add}
  bent:   {type: activation, source: sum, function: relu}
  hidden: {type: linear, source: bent, size: 6, activation: tanh}
  last:   {type: merge, source: [hidden, bent], how: concat}
"""
AROUND = """
schema_version: 1
summary: ways around, sums of sums, vectors side by side of vectors side by side
nodes:
  input:  {type: vector, source: observation}
  trunk:  {type: linear, source: input, size: 5, activation: tanh}
  other:  {type: linear, source: input, size: 5}
  third:  {type: linear, source: trunk, size: 5}
  inner:  {type: merge, source: [other, third], how: add}
  fourth: {type: linear, source: trunk, size: 5}
  outer:  {type: merge, source: [inner, fourth], how: add}
  bent:   {type: activation, source: outer, function: tanh}
  both:   {type: merge, source: [bent, input], how: concat}
  more:   {type: merge, source: [both, trunk, bent], how: concat}
  last:   {type: mlp, source: more, hidden: [4]}
"""
ONLY_CODES = """
schema_version: 1
summary: nothing is read as a number
nodes:
  cells:  {type: codes, source: observation.cells, size: 6}
  last:   {type: linear, source: cells, size: 4, activation: relu}
"""
ACTIVATE = {
    ActivationCode.NONE: lambda x: x,
    ActivationCode.TANH: np.tanh,
    ActivationCode.RELU: lambda x: np.maximum(x, 0),
}


def planned(graph, seen):
    agent = build_policy(PolicyConfig.model_validate({"graph": graph + HEADS}), EnvInterface(seen, DiscreteSpec(3)))
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)  # also where training begins with zeros
    return agent, plan_network(agent, FlatOptimizer(agent).flat)


def follow(plan, vector, codes):
    """The plan, written out: sums by target, bent when somebody reads them."""
    flat, sums, bends = plan.flat.double().numpy(), {}, {}

    def add(target, bias, size, activation, numbers):
        own = flat[bias : bias + size] if bias != NO_BIAS else 0
        sums[target] = sums.get(target, 0) + numbers + own
        assert bends.setdefault(target, activation) == activation

    def read(slot):
        return vector if slot == 0 else ACTIVATE[bends[slot]](sums[slot])

    for (target, cells, most, clips, size, place, bias, activation), rows in zip(plan.tables, codes, strict=True):
        table = flat[place : place + cells * most * size].reshape(cells, most, size)
        chosen = np.minimum(rows, most) if clips else rows
        hot = np.eye(most + 1)[chosen][:, :, 1:]
        add(target, bias, size, activation, np.einsum("ncm,cms->ns", hot, table))
    for source, target, inputs, outputs, weight, row, bias, activation in plan.layers:
        matrix = np.stack([flat[weight + k * row : weight + k * row + inputs] for k in range(outputs)])
        add(target, bias, outputs, activation, read(source) @ matrix.T)
    return read(plan.action_slot), read(plan.value_slot)[:, 0]


def compare(agent, plan, observation, vector, codes):
    with torch.no_grad():
        distribution, value, _ = agent(observation, {})
    logits, values = follow(plan, vector, codes)
    assert np.allclose(values, value[0].numpy(), atol=1e-5)
    assert np.allclose(torch.log_softmax(torch.from_numpy(logits), -1), distribution.log_probs[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("graph", [SUM, ONLY_CODES])
def test_following_the_plan_of_codes_gives_what_the_network_gives(graph):
    agent, plan = planned(graph, BYTES)
    cells = torch.randint(0, 7, (1, 20, 3, 4), dtype=torch.uint8)
    own = torch.randint(0, 256, (1, 20, 5), dtype=torch.uint8)
    parts = {"cells": cells[0].flatten(1).numpy(), "self": own[0].numpy()}
    vector = None if plan.part is None else parts[plan.part] / 255.0
    compare(agent, plan, {"cells": cells, "self": own}, vector, [parts[name] for name in plan.table_parts])


def test_an_observation_without_parts_can_be_codes_and_numbers_at_once():
    agent, plan = planned(
        SUM.replace("observation.cells", "observation").replace("observation.self", "observation"), VIEW
    )
    cells = torch.randint(0, 7, (1, 20, 3, 4), dtype=torch.uint8)
    rows = cells[0].flatten(1).numpy()
    assert plan.table_parts == ["", ""]
    compare(agent, plan, cells, rows / 255.0, [rows, rows])


def test_following_the_plan_of_sums_and_of_vectors_side_by_side_gives_what_the_network_gives():
    agent, plan = planned(AROUND, NUMBERS)
    rows = torch.randn(1, 20, 5)
    compare(agent, plan, rows, rows[0].double().numpy(), [])


def test_what_is_summed_is_one_slot_and_has_one_activation():
    _, plan = planned(SUM, BYTES)
    targets = {target for target, *_ in plan.tables} | {plan.layers[0][1]}
    assert len(targets) == 1
    assert {activation for *_, activation in plan.tables} == {plan.layers[0][-1]} == {ActivationCode.RELU}
    assert [(most, clips) for _, _, most, clips, *_ in plan.tables] == [(6, False), (3, True)]
    assert len(plan.sizes) == 5  # the input, the sum, the hidden layer, and both heads


def test_codes_alone_leave_no_vector():
    _, plan = planned(ONLY_CODES, BYTES)
    assert plan.part is None
    assert plan.sizes[0] == 0


MIXED = DictSpec((("cells", VIEW), ("self", NUMBERS)))
WHOLE = SUM.replace("source: observation.self}", "source: observation}")
TWICE = SUM.replace("amount:", "also: {type: vector, source: observation.cells}\n  amount:")
TWICE = TWICE.replace("[hidden, bent]", "[hidden, bent, also]")
OF_TRUNK = AROUND.replace("source: outer,", "source: trunk,").replace("[bent, input]", "[bent, input, outer]")


@pytest.mark.parametrize(
    ("graph", "seen", "named"),
    [
        (ONLY_CODES, MIXED, "named parts that are not bytes"),
        (WHOLE, BYTES, "an observation with named parts as one vector"),
        (TWICE, BYTES, "several parts of the observation: cells and self"),
        (AROUND.replace("[other, third]", "[other, third, trunk]"), NUMBERS, "node 'inner', a sum of 'trunk'"),
        (
            AROUND.replace("[inner, fourth]", "[inner, fourth, other]"),
            NUMBERS,
            "a sum of 'other', which .* read by others",
        ),
        (AROUND.replace("how: add", "how: mean"), NUMBERS, "node 'inner', of type merge"),
        (OF_TRUNK, NUMBERS, "node 'bent', an activation of 'trunk'"),
        (AROUND.replace("function: tanh", "function: elu"), NUMBERS, "the activation elu"),
        (AROUND.replace("type: mlp, source: more, hidden: [4]", "type: norm, source: more"), NUMBERS, "of type norm"),
    ],
)
def test_what_it_cannot_take_is_named(graph, seen, named):
    with pytest.raises(Unfit, match=named):
        planned(graph, seen)
