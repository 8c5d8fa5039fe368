import copy

import pytest
import torch

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.build import build_network, build_policy
from palaestra.policies.graph import GraphPolicy
from palaestra.policies.graph_spec import read_graph
from palaestra.policies.observations import storage_dtype
from palaestra.policies.shipped import self_contained

BYTES = {"dtype": "uint8", "low": (0.0,), "high": (255.0,)}
VECTOR, GRID, TOKENS = BoxSpec((4,)), BoxSpec((3, 7, 8), **BYTES), BoxSpec((6, 3), **BYTES)
PICTURE = BoxSpec((40, 42, 3), **BYTES)
PARTS = DictSpec((("camera", GRID), ("gear", DiscreteSpec(3, 1)), ("speed", BoxSpec((2,)))))
ACTIONS = {
    "discrete": DiscreteSpec(5, 2),
    "multi-discrete": MultiDiscreteSpec((3, 2), (0, 0)),
    "continuous": BoxSpec((2,), "float32", (-1.0,), (1.0,)),
}
HEADS = {
    "action": {"type": "action_head", "source": "hidden"},
    "value": {"type": "value_head", "source": "hidden"},
}


def graph(nodes, interface, overrides=None):
    return GraphPolicy(
        read_graph("mine", {"schema_version": 1, "nodes": {**nodes, **HEADS}}, overrides or {}), interface
    )


def draw(space, time_count, batch_count):
    """Observations such as the environment would give, [T, B, …]."""
    lead = (time_count, batch_count)
    match space:
        case DictSpec():
            return {name: draw(part, *lead) for name, part in space.parts}
        case DiscreteSpec():
            return torch.randint(space.start, space.start + space.count, lead)
        case MultiDiscreteSpec():
            return torch.stack([torch.randint(0, count, lead) for count in space.counts], dim=-1)
        case _ if storage_dtype(space) == "uint8":
            return torch.randint(0, 256, (*lead, *space.shape), dtype=torch.uint8)
        case _:
            return torch.randn(*lead, *space.shape)


def step_of(observation, step):
    if isinstance(observation, dict):
        return {name: part[step : step + 1] for name, part in observation.items()}
    return observation[step : step + 1]


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize(
    ("name", "space"),
    [
        ("mlp", VECTOR),
        ("mlp", DiscreteSpec(4)),
        ("mlp", MultiDiscreteSpec((3, 4))),
        ("mlp", PARTS),
        ("cnn", GRID),
        ("cnn", PICTURE),
        ("fast", GRID),
        ("fast", PICTURE),
        ("attention", TOKENS),
    ],
)
def test_every_graph_plays_and_learns_in_every_space_it_is_for(name, space, actions):
    torch.manual_seed(0)
    settings = {"size": 8} if name != "mlp" else {}
    policy = build_network(PolicyConfig(graph=name, settings=settings), EnvInterface(space, ACTIONS[actions]))
    observation, memory = draw(space, 3, 2), policy.initial_memory(2)
    distribution, value, after = policy(
        observation, memory, torch.tensor([[True, False], [False, True], [False, False]])
    )
    action = distribution.sample()
    assert value.shape == distribution.log_prob(action).shape == distribution.entropy().shape == (3, 2)
    assert set(after) == set(memory)
    (distribution.log_prob(action).sum() + distribution.entropy().sum() + value.sum()).backward()
    silent = [name for name, weights in policy.named_parameters() if weights.grad is None]
    assert silent == []


@pytest.mark.parametrize(("name", "space"), [("fast", GRID), ("attention", TOKENS), ("mlp", VECTOR)])
def test_a_sequence_is_what_acting_step_by_step_gives(name, space):
    torch.manual_seed(0)
    policy = build_network(PolicyConfig(graph=name), EnvInterface(space, DiscreteSpec(3)))
    observation, memory = draw(space, 6, 3), policy.initial_memory(3)
    starts = torch.rand(6, 3) < 0.3
    whole = policy(observation, memory, starts)
    for step in range(6):
        intent = policy.act(step_of(observation, step), memory, starts[step : step + 1])
        torch.testing.assert_close(
            intent.distribution.log_probs[0], whole.distribution.log_probs[step], atol=1e-5, rtol=0
        )
        if intent.value is not None:
            torch.testing.assert_close(intent.value[0], whole.value[step], atol=1e-5, rtol=0)
        memory = intent.memory
    for part, expected in whole.memory.items():
        torch.testing.assert_close(memory[part], expected, atol=1e-5, rtol=0)


def test_a_critic_that_stands_apart_is_left_out_while_playing():
    policy = build_network(PolicyConfig(graph="mlp"), EnvInterface(VECTOR, DiscreteSpec(2)))
    assert policy.act(torch.zeros(1, 2, 4), {}).value is None
    policy.nodes["critic"].forward = None  # would fail if it were called
    assert policy.act(torch.zeros(1, 2, 4), {}).distribution.log_probs.shape == (1, 2, 2)


def test_a_critic_on_shared_nodes_is_asked_while_playing():
    policy = build_network(PolicyConfig(graph="cnn"), EnvInterface(GRID, DiscreteSpec(2)))
    assert policy.act(draw(GRID, 1, 2), {}).value.shape == (1, 2)


def test_a_critic_apart_that_remembers_still_hears_every_step():
    nodes = {
        "memory": {"type": "gru", "source": "observation", "size": 3},
        "hidden": {"type": "linear", "source": "observation", "size": 4},
    }
    data = {"schema_version": 1, "nodes": {**nodes, **HEADS, "value": {"type": "value_head", "source": "memory"}}}
    policy = GraphPolicy(read_graph("mine", data, {}), EnvInterface(VECTOR, DiscreteSpec(2)))
    memory, observation = policy.initial_memory(2), torch.randn(1, 2, 4)
    torch.testing.assert_close(policy.act(observation, memory).memory, policy(observation, memory).memory)


def test_parts_of_an_observation_are_chosen_by_name():
    nodes = {
        "eye": {"type": "image", "source": "observation.camera"},
        "seen": {"type": "flatten", "source": "eye"},
        "gear": {"type": "embedding", "source": "observation.gear", "size": 2},
        "both": {"type": "merge", "source": ["seen", "gear", "observation.speed"]},
        "hidden": {"type": "linear", "source": "both", "size": 4},
    }
    policy = graph(nodes, EnvInterface(PARTS, DiscreteSpec(2)))
    assert policy.nodes["both"].output.shape == (3 * 7 * 8 + 2 + 2,)
    observation = draw(PARTS, 2, 3)
    before = policy(observation, {}).value
    assert not torch.equal(policy({**observation, "speed": observation["speed"] + 1}, {}).value, before)


@pytest.mark.parametrize(
    ("nodes", "space", "words"),
    [
        (
            {
                "a": {"type": "linear", "source": "observation", "size": 64},
                "b": {"type": "linear", "source": "observation", "size": 32},
                "hidden": {"type": "merge", "source": ["a", "b"], "how": "add"},
            },
            VECTOR,
            "node 'hidden': cannot add 'a' [64] and 'b' [32]",
        ),
        ({"hidden": {"type": "linear", "source": "observation", "size": 3}}, GRID, "cannot multiply the bytes"),
        (
            {"hidden": {"type": "vector", "source": "observation.camara"}},
            PARTS,
            "no part 'camara'. Did you mean 'camera'?",
        ),
        ({"hidden": {"type": "vector", "source": "observation.x"}}, VECTOR, "only observation as a whole"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_with_node_and_numbers(nodes, space, words):
    with pytest.raises(UsageError) as refused:
        graph(nodes, EnvInterface(space, DiscreteSpec(2)))
    assert words in str(refused.value)


def test_the_ends_must_be_heads():
    nodes = {
        **HEADS,
        "hidden": {"type": "vector", "source": "observation"},
        "value": {"type": "flatten", "source": "hidden"},
    }
    spec = read_graph("mine", {"schema_version": 1, "nodes": nodes}, {})
    with pytest.raises(UsageError, match="node 'value': is of type flatten, but must be a value_head"):
        GraphPolicy(spec, EnvInterface(VECTOR, DiscreteSpec(2)))


def test_a_node_behind_a_broken_one_is_not_blamed():
    nodes = {
        "eye": {"type": "image", "source": "observation"},
        "flat": {"type": "flatten", "source": "eye"},
        "hidden": {"type": "linear", "source": "flat", "size": 3},
    }
    with pytest.raises(UsageError, match="node 'eye'") as refused:
        graph(nodes, EnvInterface(VECTOR, DiscreteSpec(2)))
    assert "reasons" not in str(refused.value)


def test_a_copy_has_weights_of_its_own():
    policy = build_network(PolicyConfig(graph="fast", settings={"size": 8}), EnvInterface(GRID, DiscreteSpec(2)))
    twin = copy.deepcopy(policy)
    for weights in twin.parameters():
        torch.nn.init.zeros_(weights)
    observation = draw(GRID, 2, 2)
    assert not twin(observation, twin.initial_memory(2)).value.any()
    assert policy(observation, policy.initial_memory(2)).value.any()


def test_weights_are_called_by_their_nodes_and_are_all_there_once():
    agent = build_policy(PolicyConfig(graph="mlp"), EnvInterface(VECTOR, DiscreteSpec(2)))
    assert list(agent.state_dict()) == [
        *(f"network.nodes.actor.layers.{layer}.{part}" for layer in (0, 1) for part in ("weight", "bias")),
        *(f"network.nodes.action.layer.{part}" for part in ("weight", "bias")),
        *(f"network.nodes.critic.layers.{layer}.{part}" for layer in (0, 1) for part in ("weight", "bias")),
        *(f"network.nodes.value.layer.{part}" for part in ("weight", "bias")),
    ]


def test_the_graph_mlp_is_the_class_mlp_weight_for_weight():
    interface = EnvInterface(VECTOR, ACTIONS["continuous"])
    torch.manual_seed(4)
    ours = build_network(PolicyConfig(graph="mlp"), interface)
    torch.manual_seed(4)
    by_hand = build_network(PolicyConfig(module="palaestra.policies.library.mlp:MlpPolicy"), interface)
    observation = torch.randn(2, 3, 4)
    for one, other in ((ours(observation, {}), by_hand(observation, {})),):
        assert torch.equal(one.value, other.value)
        assert torch.equal(one.distribution.mean, other.distribution.mean)


def test_a_graph_of_ones_own_is_read_from_its_file_and_travels_without_it(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "schema_version: 1\nnodes:\n  input: {type: vector, source: observation}\n"
        "  action: {type: action_head, source: input}\n  value: {type: value_head, source: input}\n"
    )
    interface = EnvInterface(VECTOR, DiscreteSpec(2))
    config = PolicyConfig(graph=str(path), settings={"action": {"gain": 1.0}})
    torch.manual_seed(0)
    policy = build_network(config, interface)
    kept = self_contained(config)
    path.unlink()
    torch.manual_seed(0)
    again = build_network(PolicyConfig.model_validate(kept.model_dump(mode="json")), interface)
    assert torch.equal(policy(torch.ones(1, 1, 4), {}).value, again(torch.ones(1, 1, 4), {}).value)
    assert self_contained(PolicyConfig(graph="mlp")).graph == "mlp"
