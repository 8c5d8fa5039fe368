import pytest
import torch

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.build import build_network
from palaestra.policies.describe import describe
from palaestra.policies.shipped import shipped_names

CARTPOLE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))


def test_weights_are_those_that_one_can_count_by_hand():
    found = describe(PolicyConfig(graph="mlp"), CARTPOLE, "CartPole-v1")
    weights = {row.name: row.weights for row in found.nodes}
    tower = (4 + 1) * 64 + (64 + 1) * 64
    assert weights == {"observation": 0, "input": 0, "actor": tower, "action": 65 * 2, "critic": tower, "value": 65}
    assert found.weights == sum(weights.values())
    assert found.shown_for == "CartPole-v1"


def test_shapes_follow_the_picture_through_the_graph():
    found = describe(PolicyConfig(graph="fast"), None)
    shapes = {row.name: row.shape for row in found.nodes}
    assert shapes["observation"] == (24, 11, 11)
    assert shapes["conv1"] == (32, 9, 9)
    assert shapes["flat"] == (32 * 9 * 9,)
    assert found.memory == {"memory.hidden": (128,), "memory.cell": (128,)}


@pytest.mark.parametrize("name", shipped_names())
def test_every_graph_has_a_sample_it_is_shown_for(name):
    found = describe(PolicyConfig(graph=name), None)
    assert found.shown_for
    assert found.nodes[-1].name == "value"


def test_a_class_of_ones_own_is_shown_by_its_parts():
    config = PolicyConfig(module="palaestra.policies.library.fast:FastPolicy")
    found = describe(config, EnvInterface(BoxSpec((3, 6, 6), "uint8"), BoxSpec((2,))))
    rows = {row.name: row for row in found.nodes}
    assert rows["conv1"].kind == "Conv2d"
    assert rows["(own weights)"].weights == 2
    assert found.weights == sum(row.weights for row in found.nodes)


def test_showing_draws_no_weights():
    before = torch.get_rng_state()
    describe(PolicyConfig(graph="mlp"), CARTPOLE)
    assert torch.equal(torch.get_rng_state(), before)
    network = build_network(PolicyConfig(graph="mlp"), CARTPOLE)
    assert all(weights.device.type == "cpu" for weights in network.parameters())


def test_a_policy_that_fits_no_sample_asks_for_an_environment(tmp_path):
    path = tmp_path / "parts.yaml"
    path.write_text(
        "schema_version: 1\nnodes:\n  input: {type: vector, source: observation.hand}\n"
        "  action: {type: action_head, source: input}\n  value: {type: value_head, source: input}\n"
    )
    with pytest.raises(UsageError, match="fits none of the sample observations.*no part 'hand'"):
        describe(PolicyConfig(graph=str(path)), None)
