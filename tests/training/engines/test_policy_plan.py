import numpy as np
import pytest
import torch
from torch import nn

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.config.policy import PolicyConfig
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, FeatureSpec
from palaestra.policies.build import build_policy
from palaestra.policies.critics import build_critics
from palaestra.policies.memory.fused import LstmCell
from palaestra.training.engines.network_plan import Activation, CellKind, Unsupported
from palaestra.training.engines.policy_plan import plan_critic, plan_policy

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
summary: the first layers of Arena's network
nodes:
  cells:  {type: codes, source: observation.cells, size: 7}
  counts: {type: codes, source: observation.self, size: 7, most: 3}
  bytes:  {type: vector, source: observation.self}
  amount: {type: linear, source: bytes, size: 7}
  sum:    {type: merge, source: [cells, counts, amount], how: add}
  active:   {type: activation, source: sum, function: relu}
  hidden: {type: linear, source: active, size: 6, activation: tanh}
  last:   {type: merge, source: [hidden, active], how: concat}
"""
SKIPS = """
schema_version: 1
summary: skip connections, sums of sums, concatenations of concatenations
nodes:
  input:  {type: vector, source: observation}
  trunk:  {type: linear, source: input, size: 5, activation: tanh}
  other:  {type: linear, source: input, size: 5}
  third:  {type: linear, source: trunk, size: 5}
  inner:  {type: merge, source: [other, third], how: add}
  fourth: {type: linear, source: trunk, size: 5}
  outer:  {type: merge, source: [inner, fourth], how: add}
  active:   {type: activation, source: outer, function: tanh}
  both:   {type: merge, source: [active, input], how: concat}
  more:   {type: merge, source: [both, trunk, active], how: concat}
  last:   {type: mlp, source: more, hidden: [4]}
"""
ONLY_CODES = """
schema_version: 1
summary: embedding tables only
nodes:
  cells:  {type: codes, source: observation.cells, size: 6}
  last:   {type: linear, source: cells, size: 4, activation: relu}
"""
TREE = """
schema_version: 1
summary: a shared trunk, and a branch of the critic
nodes:
  input:  {type: vector, source: observation}
  trunk:  {type: mlp, source: input, hidden: [7, 6], activation: relu}
  branch: {type: linear, source: trunk, size: 4, activation: tanh}
  flat:   {type: flatten, source: branch}
  action: {type: action_head, source: trunk, gain: 1.0}
  value:  {type: value_head, source: flat}
"""
RECURRENT = """
schema_version: 1
summary: two recurrent layers
nodes:
  input:  {{type: vector, source: observation}}
  early:  {{type: {kind}, source: input, size: 6}}
  late:   {{type: mingru, source: early, size: 3}}
  action: {{type: action_head, source: late, gain: 1.0}}
  value:  {{type: value_head, source: early}}
"""


FUNCTIONS = {
    Activation.NONE: lambda x: x,
    Activation.TANH: np.tanh,
    Activation.RELU: lambda x: np.maximum(x, 0),
}
THREE = DiscreteSpec(3)


def planned(policy, action=THREE, space=NUMBERS, features=()):
    """An agent with random weights, its plan and its parameters."""
    agent = build_policy(PolicyConfig.model_validate(policy), EnvInterface(space, action, features))
    flat = FlatOptimizer(agent).flat
    return agent, plan_policy(agent, flat), flat


def planned_graph(graph, space):
    agent, plan, flat = planned({"graph": graph + HEADS}, space=space)
    with torch.no_grad():
        flat.add_(torch.randn_like(flat) * 0.3)  # also the parameters that start as zeros
    return agent, plan, flat


def evaluate(plan, flat, vector, codes=()):
    """The plan written out: sums by target, and a norm and an activation when they are read."""
    numbers, sums, activations = flat.double().numpy(), {}, {}
    norms = {norm.target: norm for norm in plan.norms}

    def add(layer, size, terms):
        bias = 0 if layer.bias_offset is None else numbers[layer.bias_offset : layer.bias_offset + size]
        sums[layer.target] = sums.get(layer.target, 0) + terms + bias
        assert activations.setdefault(layer.target, layer.activation) == layer.activation

    def read(slot):
        return vector if slot == 0 else FUNCTIONS[activations[slot]](normalized(norms.get(slot), sums[slot]))

    def normalized(norm, x):
        if norm is None:
            return x
        weight, bias = (numbers[at : at + norm.size] for at in (norm.weight_offset, norm.bias_offset))
        spread = np.sqrt(x.var(axis=1, keepdims=True) + norm.epsilon)
        return (x - x.mean(axis=1, keepdims=True)) / spread * weight + bias

    for table, rows in zip(plan.tables, codes, strict=True):
        shape = table.cells, table.rows_per_cell, table.size
        weights = numbers[table.weight_offset : table.weight_offset + np.prod(shape)].reshape(shape)
        selected = np.minimum(rows, table.rows_per_cell) if table.clips_codes else rows
        one_hot = np.eye(table.rows_per_cell + 1)[selected][:, :, 1:]
        add(table, table.size, np.einsum("ncm,cms->ns", one_hot, weights))
    for layer in plan.layers:
        if layer.weight_offset is None:
            add(layer, layer.outputs, read(layer.source))
            continue
        starts = [layer.weight_offset + k * layer.weight_row_stride for k in range(layer.outputs)]
        matrix = np.stack([numbers[start : start + layer.inputs] for start in starts])
        add(layer, layer.outputs, read(layer.source) @ matrix.T)
    return [read(slot) for slot in (plan.action_slot, plan.value_slot) if slot is not None]


def compare(agent, plan, flat, observation, vector, codes=()):
    with torch.no_grad():
        distribution, value, _ = agent(observation, {})
    logits, values = evaluate(plan, flat, vector, codes)
    assert np.allclose(values[:, 0], value[0].numpy(), atol=1e-5)
    assert np.allclose(torch.log_softmax(torch.from_numpy(logits), -1), distribution.log_probs[0].numpy(), atol=1e-5)


MLPS = [
    "mlp",
    {"graph": "mlp", "settings": {"hidden": [9, 9, 9], "layer_norm": True}},
    {"graph": "mlp", "settings": {"hidden": [9, 9, 9], "residual": True, "activation": "relu"}},
    {"graph": "mlp", "settings": {"hidden": [9, 9, 9], "layer_norm": True, "residual": True}},
    {"graph": TREE},
    {"graph": TREE.replace("flatten,", "norm,")},
    {"graph": TREE.replace("flatten,", "residual,")},
    {"graph": TREE.replace("type: flatten,", "type: activation, function: tanh,")},
    {"module": "palaestra.policies.library.mlp:MlpPolicy"},
]


@pytest.mark.parametrize("policy", MLPS)
def test_the_plan_of_linear_layers_computes_what_the_network_computes(policy):
    agent, plan, flat = planned(policy)
    rows = torch.randn(1, 20, 5)
    compare(agent, plan, flat, rows, rows[0].double().numpy())


BOUNDED = BoxSpec((2,), low=(-1.0, -2.0), high=(1.0, 2.0))


@pytest.mark.parametrize("policy", MLPS[:-1])
@pytest.mark.parametrize("action", [THREE, BOUNDED])
def test_the_plan_of_a_critic_computes_what_the_critic_computes(policy, action):
    config, interface = PolicyConfig.model_validate(policy), EnvInterface(NUMBERS, action)
    critics = build_critics(config, interface, 2)
    for critic, flat in zip(critics, FlatOptimizer(critics).flat.chunk(2), strict=True):
        plan = plan_critic(critic, interface, flat)
        rows, actions = torch.randn(1, 20, 5), torch.rand(1, 20, 2)
        given = (actions,) if action is BOUNDED else ()
        vector = torch.cat((rows, *given), dim=-1)[0]
        (values,) = evaluate(plan, flat.detach(), vector.double().numpy())
        theirs = critic(rows, *given).detach()[0].reshape(20, -1)
        assert plan.action_slot is None
        assert np.allclose(values, theirs.numpy(), atol=1e-5)


def test_the_plan_of_a_critic_of_codes_has_the_action_as_its_vector():
    interface = EnvInterface(BYTES, BOUNDED)
    critic = build_critics(PolicyConfig.model_validate({"graph": ONLY_CODES + HEADS}), interface, 1)[0]
    flat = FlatOptimizer(critic).flat
    plan = plan_critic(critic, interface, flat)
    cells, actions = torch.randint(0, 7, (1, 20, 3, 4), dtype=torch.uint8), torch.rand(1, 20, 2)
    codes = [cells[0].flatten(1).numpy()]
    (values,) = evaluate(plan, flat.detach(), actions[0].double().numpy(), codes)
    theirs = critic({"cells": cells, "self": torch.zeros(1, 20, 5, dtype=torch.uint8)}, actions)
    assert (plan.slot_sizes[0], plan.input_part) == (2, None)
    assert np.allclose(values[:, 0], theirs[0].detach().numpy(), atol=1e-5)


def test_a_critic_that_reads_the_observation_alone_is_unsupported():
    graph = TREE.replace("source: input, hidden", "source: even, hidden").replace(
        "\n  trunk:", "\n  even: {type: norm, source: input}\n  trunk:"
    )
    interface = EnvInterface(NUMBERS, BOUNDED)
    critic = build_critics(PolicyConfig(graph=graph), interface, 1)[0]
    with pytest.raises(Unsupported, match="node 'even' of the critic, which reads the observation or the action alone"):
        plan_critic(critic, interface, FlatOptimizer(critic).flat)


@pytest.mark.parametrize(("role", "size"), [("stochastic_actor", 4), ("deterministic_actor", 2)])
@pytest.mark.parametrize("policy", MLPS[:-1])
def test_the_plan_of_an_actor_gives_the_numbers_of_its_distribution(policy, role, size):
    agent, plan, flat = planned({**PolicyConfig.model_validate(policy).model_dump(), "role": role}, BOUNDED)
    rows = torch.randn(1, 20, 5)
    (numbers,) = evaluate(plan, flat.detach(), rows[0].double().numpy())
    with torch.no_grad():
        mode = agent.act(rows, {}).distribution.mode()[0].numpy()
    assert (numbers.shape, plan.value_slot) == ((20, size), None)
    assert np.allclose(np.tanh(numbers[:, :2]) * BOUNDED.high, mode, atol=1e-5)


@pytest.mark.parametrize("graph", [SUM, ONLY_CODES])
def test_the_plan_of_tables_computes_what_the_network_computes(graph):
    agent, plan, flat = planned_graph(graph, BYTES)
    cells = torch.randint(0, 7, (1, 20, 3, 4), dtype=torch.uint8)
    own = torch.randint(0, 256, (1, 20, 5), dtype=torch.uint8)
    parts = {"cells": cells[0].flatten(1).numpy(), "self": own[0].numpy()}
    vector = None if plan.input_part is None else parts[plan.input_part] / 255.0
    observation = {"cells": cells, "self": own}
    compare(agent, plan, flat, observation, vector, [parts[table.part] for table in plan.tables])


def test_an_observation_without_parts_can_be_codes_and_numbers_at_once():
    graph = SUM.replace("observation.cells", "observation").replace("observation.self", "observation")
    agent, plan, flat = planned_graph(graph, VIEW)
    cells = torch.randint(0, 7, (1, 20, 3, 4), dtype=torch.uint8)
    rows = cells[0].flatten(1).numpy()
    assert [table.part for table in plan.tables] == ["", ""]
    compare(agent, plan, flat, cells, rows / 255.0, [rows, rows])


OF_TRUNK = SKIPS.replace("source: outer,", "source: trunk,").replace("[active, input]", "[active, input, outer]")


@pytest.mark.parametrize(
    "graph",
    [
        SKIPS,
        SKIPS.replace("[other, third]", "[other, third, trunk]"),
        SKIPS.replace("[inner, fourth]", "[inner, fourth, other]"),
        OF_TRUNK,
    ],
)
def test_the_plan_of_sums_and_concatenations_computes_what_the_network_computes(graph):
    agent, plan, flat = planned_graph(graph, NUMBERS)
    rows = torch.randn(1, 20, 5)
    compare(agent, plan, flat, rows, rows[0].double().numpy())


def test_a_sum_is_one_slot_with_one_activation():
    _, plan, _ = planned_graph(SUM, BYTES)
    assert len({table.target for table in plan.tables} | {plan.layers[0].target}) == 1
    assert {table.activation for table in plan.tables} == {plan.layers[0].activation} == {Activation.RELU}
    assert [(table.rows_per_cell, table.clips_codes) for table in plan.tables] == [(6, False), (3, True)]
    assert len(plan.slot_sizes) == 5  # the input, the sum, the hidden layer, and both heads


def test_without_a_vector_slot_0_is_empty():
    _, plan, _ = planned_graph(ONLY_CODES, BYTES)
    assert plan.input_part is None
    assert plan.slot_sizes[0] == 0


def test_log_std_is_found_in_the_flat_array():
    _, plan, flat = planned({"graph": "mlp", "settings": {"log_std": -0.7}}, BoxSpec((2,)))
    assert flat[plan.log_std_offset : plan.log_std_offset + 2].tolist() == pytest.approx([-0.7, -0.7])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step_cell(kind, gates, recurrent, state):
    """One step as the cell's authors write it. Gates, and the hidden state's contribution to them, are [n, size]."""
    hidden, cell_state = state
    if kind == CellKind.MINGRU:
        gate = sigmoid(gates[0])
        return (1 - gate) * hidden + gate * gates[1], cell_state
    if kind == CellKind.LSTM:
        enter, forget, _, leave = sigmoid(gates + recurrent)
        cell_state = forget * cell_state + enter * np.tanh(gates[2] + recurrent[2])
        return leave * np.tanh(cell_state), cell_state
    reset, update, _ = sigmoid(gates + recurrent)
    candidate = np.tanh(gates[2] + reset * recurrent[2])
    return (1 - update) * candidate + update * hidden, cell_state


def evaluate_sequence(plan, flat, sequence):
    """A recurrent plan written out for one environment: [T, 5] -> T logits [3] and values."""
    numbers, states = flat.double().numpy(), {}

    def matrix(offset, rows, columns):
        return numbers[offset : offset + rows * columns].reshape(rows, columns)

    def one_step(vector):
        slots = {0: vector}
        for layer in plan.layers:
            bias = numbers[layer.bias_offset : layer.bias_offset + layer.outputs]
            weight = matrix(layer.weight_offset, layer.outputs, layer.inputs)
            slots[layer.target] = weight @ slots[layer.source] + bias
            for cell in plan.cells:
                if cell.gates != layer.target:
                    continue
                state = states.get(cell.gates, (np.zeros(cell.size), np.zeros(cell.size)))
                recurrent = np.zeros(layer.outputs)
                if cell.kind != CellKind.MINGRU:
                    offset = cell.recurrent_bias_offset
                    weight = matrix(cell.recurrent_weight_offset, layer.outputs, cell.size)
                    recurrent = weight @ state[0] + numbers[offset : offset + layer.outputs]
                gates = slots[layer.target].reshape(-1, cell.size)
                states[cell.gates] = step_cell(cell.kind, gates, recurrent.reshape(-1, cell.size), state)
                slots[cell.target] = states[cell.gates][0]
        return slots[plan.action_slot], slots[plan.value_slot][0]

    return [one_step(vector) for vector in sequence]


@pytest.mark.parametrize("kind", ["mingru", "lstm", "gru"])
def test_the_plan_of_recurrent_cells_computes_what_the_network_computes(kind):
    agent, plan, flat = planned({"graph": RECURRENT.format(kind=kind)})
    with torch.no_grad():
        flat.add_(torch.randn_like(flat) * 0.3)  # also the parameters that start as zeros
        sequence = torch.randn(9, 1, 5)
        distribution, value, _ = agent(sequence, agent.initial_memory(1))
    results = evaluate_sequence(plan, flat, sequence[:, 0].double().numpy())
    logits = torch.log_softmax(torch.tensor(np.array([each[0] for each in results])), dim=-1)
    assert torch.allclose(logits, distribution.log_probs[:, 0].double(), atol=1e-5)
    assert np.allclose([each[1] for each in results], value[:, 0].numpy(), atol=1e-5)


def test_the_parts_of_the_memory_are_named_in_the_order_of_the_cells():
    _, plan, _ = planned({"graph": RECURRENT.format(kind="lstm")})
    assert plan.memory_names == ["early.hidden", "early.cell", "late.hidden"]
    assert [cell.kind for cell in plan.cells] == [CellKind.LSTM, CellKind.MINGRU]


MIXED = DictSpec((("cells", VIEW), ("self", NUMBERS)))
WHOLE = SUM.replace("source: observation.self}", "source: observation}")
TWICE = SUM.replace("amount:", "also: {type: vector, source: observation.cells}\n  amount:")
TWICE = TWICE.replace("[hidden, active]", "[hidden, active, also]")


@pytest.mark.parametrize(
    ("graph", "space", "named"),
    [
        (ONLY_CODES, MIXED, "named parts that are not bytes"),
        (WHOLE, BYTES, "an observation with named parts as one vector"),
        (TWICE, BYTES, "several parts of the observation: cells and self"),
        (SKIPS.replace("how: add", "how: mean"), NUMBERS, "node 'inner', of type merge"),
        (SKIPS.replace("function: tanh", "function: elu"), NUMBERS, "the activation elu"),
        (
            SKIPS.replace("type: mlp, source: more, hidden: [4]", "type: norm, source: more"),
            NUMBERS,
            "node 'last', which normalises a concatenation",
        ),
        (
            SKIPS.replace("type: mlp, source: more, hidden: [4]", "type: activation, source: more"),
            NUMBERS,
            "node 'last', which reads the concatenation 'more'",
        ),
    ],
)
def test_an_unsupported_node_is_named(graph, space, named):
    with pytest.raises(Unsupported, match=named):
        planned_graph(graph, space)


@pytest.mark.parametrize(
    ("policy", "action", "named"),
    [
        ({"graph": "mlp", "settings": {"activation": "elu"}}, DiscreteSpec(2), "the activation elu"),
        ({"graph": TREE.replace("gain: 1.0", "squash: true")}, BoxSpec((1,), low=(-1.0,), high=(1.0,)), "squash=true"),
        ({"graph": TREE.replace("gain: 1.0", "state_dependent_std: true")}, BoxSpec((1,)), "state_dependent_std=true"),
    ],
)
def test_an_unsupported_setting_is_named(policy, action, named):
    with pytest.raises(Unsupported, match=named):
        planned(policy, action)


def test_a_network_of_another_class_is_named():
    agent, _, flat = planned("mlp")
    agent.network = nn.Identity()
    with pytest.raises(Unsupported, match="class Identity"):
        plan_policy(agent, flat)


def test_named_features_are_unsupported():
    features = tuple(FeatureSpec(f"f{index}", index) for index in range(5))
    agent, _, flat = planned("mlp", features=features)
    agent.feature_map = object()
    with pytest.raises(Unsupported, match="names"):
        plan_policy(agent, flat)


class OwnCell(LstmCell):
    """Could do anything in its forward."""


def test_a_subclass_of_a_cell_is_unsupported():
    agent, _, flat = planned({"graph": RECURRENT.format(kind="lstm")})
    agent.network.nodes["early"].cell = OwnCell(5, 6)
    with pytest.raises(Unsupported, match="node 'early', of type lstm"):
        plan_policy(agent, flat)
