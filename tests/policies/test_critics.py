import pytest
import torch
from torch import nn

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.policies.critics import build_critics

VECTOR = BoxSpec((4,))
IMAGE = BoxSpec((36, 36, 3), "uint8", (0.0,), (255.0,))
BOUNDED = BoxSpec((2,), low=(-2.0,), high=(2.0,))
PARTS = DictSpec((("goal", BoxSpec((2,))), ("seen", BoxSpec((3,))), ("door", DiscreteSpec(3))))


def critics_of(policy, seen=VECTOR, action=BOUNDED, count=2):
    torch.manual_seed(0)
    return build_critics(PolicyConfig.model_validate(policy), EnvInterface(seen, action), count)


def test_the_critic_of_mlp_is_its_tower_on_observation_and_action():
    critic = critics_of({"graph": "mlp", "settings": {"hidden": [8, 5], "activation": "relu"}})[0]
    observation, actions = torch.randn(3, 2, 4), torch.randn(3, 2, 2)
    rows = torch.cat([observation, actions], dim=-1)
    for layer in critic.nodes["critic"].layers:
        rows = torch.relu(layer(rows))
    expected = critic.nodes["value"].layer(rows).squeeze(-1)
    torch.testing.assert_close(critic(observation, actions), expected)
    assert expected.shape == (3, 2)


def test_parameters_have_the_names_of_the_policys_critic_and_no_others():
    names = [name for name, _ in critics_of({"graph": "mlp"}).named_parameters()]
    assert names == [
        f"{critic}.nodes.{layer}.{part}"
        for critic in (0, 1)
        for layer in ("critic.layers.0", "critic.layers.1", "value.layer")
        for part in ("weight", "bias")
    ]


def test_twins_begin_with_weights_of_their_own():
    one, other = critics_of({"graph": "mlp"})
    assert not torch.equal(one.nodes["value"].layer.weight, other.nodes["value"].layer.weight)


def test_weights_begin_as_torch_draws_them():
    critic = critics_of({"graph": "mlp", "settings": {"hidden": [64]}}, seen=BoxSpec((14,)))[0]
    first, last = critic.nodes["critic"].layers[0], critic.nodes["value"].layer
    assert 0.24 < first.weight.detach().abs().max().item() <= 0.25  # 1 / sqrt(14 + 2)
    assert 0.11 < last.weight.detach().abs().max().item() <= 0.125  # 1 / sqrt(64)
    assert first.bias.detach().abs().min().item() > 0


def test_an_image_is_seen_before_the_action_is_read():
    critic = critics_of({"graph": "cnn", "settings": {"size": 16}}, seen=IMAGE)[0]
    features = critic.nodes["flat"].output.shape[0]
    assert critic.nodes["hidden"].layer.weight.shape == (16, features + 2)
    observation = torch.randint(0, 256, (1, 3, 36, 36, 3), dtype=torch.uint8)
    actions = torch.randn(1, 3, 2)
    assert critic(observation, actions).shape == (1, 3)
    assert not torch.equal(critic(observation, actions), critic(observation, actions + 1))


def test_dictionaries_are_read_whole():
    critic = critics_of({"graph": "mlp"}, seen=PARTS)[0]
    observation = {"goal": torch.randn(1, 5, 2), "seen": torch.randn(1, 5, 3), "door": torch.zeros(1, 5).long()}
    assert critic(observation, torch.zeros(1, 5, 2)).shape == (1, 5)
    assert critic.nodes["critic"].layers[0].in_features == 2 + 3 + 3 + 2


def test_for_discrete_actions_there_is_a_value_for_each():
    critic = critics_of({"graph": "mlp"}, action=DiscreteSpec(3))[0]
    assert critic(torch.zeros(1, 5, 4)).shape == (1, 5, 3)
    assert critic.nodes["critic"].layers[0].in_features == 4


TWO_WAYS = """
schema_version: 1
nodes:
  one:    {type: linear, source: observation.goal, size: 3, activation: relu}
  other:  {type: linear, source: observation.seen, size: 5, activation: relu}
  both:   {type: merge, source: [one, other]}
  hidden: {type: linear, source: both, size: 6, activation: relu}
  action: {type: action_head, source: hidden}
  value:  {type: value_head, source: hidden}
"""


def test_where_ways_meet_the_first_layer_of_each_reads_the_action():
    critic = critics_of({"graph": TWO_WAYS}, seen=PARTS)[0]
    widths = {name: critic.nodes[name].layer.in_features for name in ("one", "other", "hidden", "value")}
    assert widths == {"one": 4, "other": 5, "hidden": 8, "value": 6}


BARE = """
schema_version: 1
nodes:
  input:  {type: vector, source: observation}
  action: {type: action_head, source: input}
  value:  {type: value_head, source: input}
"""


def test_without_another_layer_the_value_head_reads_the_action():
    assert critics_of({"graph": BARE})[0].nodes["value"].layer.in_features == 6


def test_memory_is_refused_because_steps_are_drawn_one_by_one():
    with pytest.raises(UsageError, match=r"node 'memory': lstm has memory"):
        critics_of({"graph": "fast"}, seen=IMAGE)


def test_a_class_without_a_critic_is_told_what_to_implement():
    with pytest.raises(UsageError, match="has no critic") as caught:
        critics_of({"module": "palaestra.policies.library.mlp:MlpPolicy"})
    assert "make_critic(interface, settings)" in caught.value.hint


def test_a_class_brings_its_own_critic(tmp_path, monkeypatch):
    (tmp_path / "own_critic.py").write_text(
        "import torch\n"
        "from pydantic import BaseModel\n"
        "from palaestra.policies.base import Policy\n"
        "class Values(torch.nn.Module):\n"
        "    def __init__(self, scale): super().__init__(); self.scale = torch.nn.Parameter(torch.tensor(scale))\n"
        "    def forward(self, observation, actions): return self.scale * (observation.sum(-1) + actions.sum(-1))\n"
        "class Actor(Policy):\n"
        "    roles = ('stochastic_actor',)\n"
        "    class Settings(BaseModel):\n"
        "        scale: float = 2.0\n"
        "    @classmethod\n"
        "    def make_critic(cls, interface, settings): return Values(settings.scale)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    critics = critics_of({"module": "own_critic:Actor", "settings": {"scale": 3.0}})
    assert isinstance(critics, nn.ModuleList)
    assert critics[1](torch.ones(1, 1, 4), torch.ones(1, 1, 2)).item() == 18.0
