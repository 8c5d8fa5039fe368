import numpy as np
import pytest
import torch
from torch import nn

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.config.policy import PolicyConfig
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, FeatureSpec
from palaestra.policies.build import build_policy
from palaestra.training.engines.codes import ActivationCode, Unfit
from palaestra.training.engines.network_plan import plan_network

SEEN = BoxSpec((5,))
TREE = """
schema_version: 1
summary: a trunk, and a branch that the critic has to itself
nodes:
  input:  {type: vector, source: observation}
  trunk:  {type: mlp, source: input, hidden: [7, 6], activation: relu}
  branch: {type: linear, source: trunk, size: 4, activation: tanh}
  flat:   {type: flatten, source: branch}
  action: {type: action_head, source: trunk, gain: 1.0}
  value:  {type: value_head, source: flat}
"""
ACTIVATE = {
    ActivationCode.NONE: lambda x: x,
    ActivationCode.TANH: np.tanh,
    ActivationCode.RELU: lambda x: np.maximum(x, 0),
}


THREE = DiscreteSpec(3)


def planned(policy, action=THREE, seen=SEEN, features=()):
    agent = build_policy(PolicyConfig.model_validate(policy), EnvInterface(seen, action, features))
    optimizer = FlatOptimizer(agent)
    return agent, plan_network(agent, optimizer.flat)


def follow(plan, rows):
    """The plan, written out."""
    flat, slots = plan.flat.numpy(), {0: rows}
    for source, target, inputs, outputs, weight, _, bias, activation in plan.layers:
        matrix = flat[weight : weight + inputs * outputs].reshape(outputs, inputs)
        slots[target] = ACTIVATE[activation](slots[source] @ matrix.T + flat[bias : bias + outputs])
    return slots[plan.action_slot], slots[plan.value_slot][:, 0]


@pytest.mark.parametrize("policy", ["mlp", {"graph": TREE}, {"module": "palaestra.policies.library.mlp:MlpPolicy"}])
def test_following_the_plan_gives_what_the_network_gives(policy):
    agent, plan = planned(policy)
    rows = torch.randn(1, 20, 5)
    with torch.no_grad():
        distribution, value, _ = agent(rows, {})
    logits, values = follow(plan, rows[0].numpy())
    assert np.allclose(values, value[0].numpy(), atol=1e-5)
    ours = torch.log_softmax(torch.from_numpy(logits), dim=-1)
    assert torch.allclose(ours, distribution.log_probs[0], atol=1e-5)


def test_the_spread_of_continuous_actions_is_found_in_the_flat_block():
    _, plan = planned({"graph": "mlp", "settings": {"log_std": -0.7}}, BoxSpec((2,)))
    assert plan.flat[plan.log_std : plan.log_std + 2].tolist() == pytest.approx([-0.7, -0.7])


@pytest.mark.parametrize(
    ("policy", "action", "named"),
    [
        ({"graph": "mlp", "settings": {"activation": "elu"}}, DiscreteSpec(2), "the activation elu"),
        ({"graph": TREE.replace("gain: 1.0", "squash: true")}, BoxSpec((1,), low=(-1.0,), high=(1.0,)), "squash=true"),
        ({"graph": TREE.replace("gain: 1.0", "state_dependent_std: true")}, BoxSpec((1,)), "state_dependent_std=true"),
        ({"graph": TREE.replace("flatten,", "norm,")}, DiscreteSpec(2), "node 'flat'"),
    ],
)
def test_what_it_cannot_take_is_named(policy, action, named):
    with pytest.raises(Unfit, match=named):
        planned(policy, action)


def test_a_network_of_a_class_of_ones_own_is_named():
    agent, plan = planned("mlp")
    agent.network = nn.Identity()
    with pytest.raises(Unfit, match="class Identity"):
        plan_network(agent, plan.flat)


def test_named_features_are_refused():
    features = tuple(FeatureSpec(f"f{index}", index) for index in range(5))
    agent, plan = planned("mlp", features=features)
    agent.feature_map = object()
    with pytest.raises(Unfit, match="names"):
        plan_network(agent, plan.flat)
