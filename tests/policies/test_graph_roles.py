"""One graph in every role: actor of PPO, action values, actors of SAC and TD3."""

import pytest
import torch

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.policies.build import build_network, build_policy
from palaestra.policies.distributions import Categorical, SquashedGaussian
from palaestra.policies.role_distributions import ActionValues, DeterministicAction

VECTOR = BoxSpec((4,))
IMAGE = BoxSpec((36, 36, 3), "uint8", (0.0,), (255.0,))
PARTS = DictSpec((("goal", BoxSpec((2,))), ("door", DiscreteSpec(3))))
BOUNDED = BoxSpec((2,), low=(-2.0, -1.0), high=(2.0, 3.0))
LAYER_PARTS = ("weight", "bias")
KINDS = [
    ("action_values", DiscreteSpec(3), ActionValues),
    ("stochastic_actor", BOUNDED, SquashedGaussian),
    ("stochastic_actor", DiscreteSpec(3), Categorical),
    ("deterministic_actor", BOUNDED, DeterministicAction),
]
OBSERVATIONS = {
    "mlp": (VECTOR, torch.zeros(2, 3, 4)),
    "cnn": (IMAGE, torch.zeros(2, 3, 36, 36, 3, dtype=torch.uint8)),
    "parts": (PARTS, {"goal": torch.zeros(2, 3, 2), "door": torch.zeros(2, 3, dtype=torch.int64)}),
}


def config_of(role, graph="mlp", **settings):
    return PolicyConfig.model_validate({"graph": graph, "role": role, "settings": settings})


@pytest.mark.parametrize("seen", OBSERVATIONS)
@pytest.mark.parametrize(("role", "action", "kind"), KINDS)
def test_a_graph_acts_in_every_role_without_its_critic(role, action, kind, seen):
    space, observation = OBSERVATIONS[seen]
    agent = build_policy(config_of(role, "cnn" if seen == "cnn" else "mlp"), EnvInterface(space, action))
    output = agent(observation, {})
    assert isinstance(output.distribution, kind)
    assert output.value.shape == (2, 3)
    assert agent.act(observation, {}).distribution.mode().shape[:2] == (2, 3)
    assert not {"critic", "value"} & set(agent.network.nodes)


def test_parameters_are_those_of_the_actor():
    agent = build_policy(config_of("stochastic_actor", hidden=[6]), EnvInterface(VECTOR, BOUNDED))
    shapes = {name: tuple(weights.shape) for name, weights in agent.named_parameters()}
    assert shapes == {
        "network.nodes.actor.layers.0.weight": (6, 4),
        "network.nodes.actor.layers.0.bias": (6,),
        "network.nodes.action.layer.weight": (4, 6),  # two means, then two logarithms of deviations
        "network.nodes.action.layer.bias": (4,),
    }


def test_layer_normalisation_comes_behind_the_layers_in_the_weights():
    agent = build_policy(
        config_of("action_values", hidden=[6, 5], layer_norm=True), EnvInterface(VECTOR, DiscreteSpec(2))
    )
    assert [name.removeprefix("network.nodes.") for name, _ in agent.named_parameters()] == [
        *(f"actor.{kind}.{layer}.{part}" for kind in ("layers", "norms") for layer in (0, 1) for part in LAYER_PARTS),
        *(f"action.layer.{part}" for part in LAYER_PARTS),
    ]


def test_the_value_of_action_values_is_the_largest():
    network = build_network(config_of("action_values"), EnvInterface(VECTOR, DiscreteSpec(3)))
    output = network(torch.randn(2, 3, 4), {})
    torch.testing.assert_close(output.value, output.distribution.values.max(dim=-1).values)


def test_a_dueling_head_adds_a_value_to_advantages_of_mean_zero():
    network = build_network(
        config_of("action_values", hidden=[5], action={"dueling": True}), EnvInterface(VECTOR, DiscreteSpec(3))
    )
    observation = torch.randn(2, 3, 4)
    head, actor = network.nodes["action"], network.nodes["actor"]
    features = actor(observation.flatten(0, 1)).view(2, 3, 5)
    advantages = head.layer(features)
    expected = head.state_value(features) + advantages - advantages.mean(dim=-1, keepdim=True)
    torch.testing.assert_close(network(observation, {}).distribution.values, expected)
    assert [name for name, _ in head.named_parameters()] == [
        *(f"layer.{part}" for part in LAYER_PARTS),
        *(f"state_value.{part}" for part in LAYER_PARTS),
    ]


@pytest.mark.parametrize("role", ["action_values", "stochastic_actor"])
def test_weights_begin_as_torch_draws_them_unless_the_graph_says_otherwise(role):
    torch.manual_seed(0)
    settings = {"hidden": [64], "activation": "relu"}
    network = build_network(config_of(role, **settings), EnvInterface(BoxSpec((16,)), DiscreteSpec(3)))
    weight, bias = network.nodes["actor"].layers[0].weight, network.nodes["action"].layer.bias
    assert 0.24 < weight.detach().abs().max().item() <= 0.25  # 1 / sqrt(16)
    assert 0 < bias.detach().abs().max().item() <= 0.125  # 1 / sqrt(64)
    told = build_network(
        config_of(role, **settings, action={"gain": 2.0}), EnvInterface(BoxSpec((16,)), DiscreteSpec(3))
    )
    weight = told.nodes["action"].layer.weight
    torch.testing.assert_close(weight @ weight.T, 4 * torch.eye(3), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("role", "action", "settings", "problem"),
    [
        ("stochastic_actor", BOUNDED, {"squash": False}, "squash=false is for algorithm=ppo"),
        ("deterministic_actor", BOUNDED, {"state_dependent_std": True}, "the actor of TD3 has no standard deviation"),
        ("deterministic_actor", BOUNDED, {"log_std": -1.0}, "log_std=-1.0 is not read"),
        ("actor_critic", DiscreteSpec(3), {"dueling": True}, "dueling=true is for algorithm=dqn"),
    ],
)
def test_settings_of_the_head_that_the_role_does_not_read_are_refused(role, action, settings, problem):
    with pytest.raises(UsageError, match=problem):
        build_network(config_of(role, action=settings), EnvInterface(VECTOR, action))


def test_memory_is_refused_where_steps_are_drawn_one_by_one():
    with pytest.raises(
        UsageError, match=r"node 'memory': lstm has memory, and this algorithm learns from single steps"
    ):
        build_network(config_of("action_values", "fast"), EnvInterface(IMAGE, DiscreteSpec(3)))


EMBEDDED = """
schema_version: 1
nodes:
  input:  {type: vector, source: observation}
  action: {type: action_embedding_head, source: input}
  value:  {type: value_head, source: input}
"""


def test_an_embedding_head_gives_action_values_too():
    network = build_network(config_of("action_values", EMBEDDED), EnvInterface(VECTOR, DiscreteSpec(3)))
    assert network(torch.zeros(1, 2, 4), {}).distribution.values.shape == (1, 2, 3)


def test_a_class_of_ones_own_says_which_roles_it_serves():
    config = PolicyConfig.model_validate(
        {"module": "palaestra.policies.library.mlp:MlpPolicy", "role": "action_values"}
    )
    with pytest.raises(
        UsageError, match="MlpPolicy does not serve the role action_values; its roles: actor_critic"
    ) as caught:
        build_network(config, EnvInterface(VECTOR, DiscreteSpec(3)))
    assert "roles = ('action_values',)" in caught.value.hint


def test_a_class_that_serves_the_role_is_told_it(tmp_path, monkeypatch):
    (tmp_path / "own_values.py").write_text(
        "import torch\n"
        "from pydantic import BaseModel\n"
        "from palaestra.policies.base import Policy, PolicyOutput\n"
        "from palaestra.policies.role_distributions import ActionValues\n"
        "class Net(Policy):\n"
        "    roles = ('action_values',)\n"
        "    class Settings(BaseModel): pass\n"
        "    def __init__(self, interface, settings, role):\n"
        "        super().__init__()\n"
        "        self.role, self.layer = role, torch.nn.Linear(4, 3)\n"
        "    def forward(self, observation, memory, starts=None):\n"
        "        values = ActionValues(self.layer(observation))\n"
        "        return PolicyOutput(values, values.value(), memory)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = PolicyConfig.model_validate({"module": "own_values:Net", "role": "action_values"})
    agent = build_policy(config, EnvInterface(VECTOR, DiscreteSpec(3)))
    assert agent.network.role == "action_values"
    assert agent(torch.zeros(1, 2, 4), {}).distribution.mode().shape == (1, 2)
