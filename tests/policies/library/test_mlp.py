import pytest
import torch
from torch import nn

from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.library.mlp import MlpPolicy, MlpSettings

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}
CHOICES = DiscreteSpec(3)


def make(action_space=CHOICES, **settings):
    return MlpPolicy(EnvInterface(BoxSpec((4,)), action_space), MlpSettings(**settings))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_computes_what_a_plain_sequence_of_layers_computes(activation):
    policy = make(hidden=(8, 6), activation=activation)
    observation = torch.randn(5, 2, 4)

    def plain(tower):
        steps = [step for layer in tower.layers[:-1] for step in (layer, ACTIVATIONS[activation]())]
        return nn.Sequential(*steps, tower.layers[-1])(observation)

    distribution, value, memory = policy(observation, {}, None)
    torch.testing.assert_close(value, plain(policy.critic).squeeze(-1))
    torch.testing.assert_close(distribution.log_probs, plain(policy.actor).log_softmax(-1))
    assert memory == {}


@pytest.mark.parametrize(
    ("space", "shape"), [(DiscreteSpec(3), (5, 2)), (MultiDiscreteSpec((2, 3)), (5, 2, 2)), (BoxSpec((3,)), (5, 2, 3))]
)
def test_every_action_space_gives_actions_of_its_shape(space, shape):
    distribution, value, _ = make(space)(torch.randn(5, 2, 4), {}, None)
    action = distribution.sample()
    assert action.shape == shape
    assert distribution.log_prob(action).shape == value.shape == (5, 2)


def test_the_first_policy_is_near_uniform_and_its_critic_is_not_flat():
    policy = make()
    with torch.no_grad():
        distribution, value, _ = policy(torch.randn(100, 1, 4), {}, None)
    assert float(distribution.log_probs.exp().sub(1 / 3).abs().max()) < 0.02
    assert float(value.std()) > 0.1


def test_acting_has_the_distribution_of_going_forward():
    policy, observation = make(), torch.randn(1, 7, 4)
    torch.testing.assert_close(
        policy.act(observation, {}, None).distribution.log_probs, policy(observation, {}, None).distribution.log_probs
    )


def test_the_deviation_of_continuous_actions_is_learned_and_starts_as_asked():
    policy = make(BoxSpec((2,)), log_std=-1.0)
    assert policy.log_std.tolist() == [-1.0, -1.0]
    assert "log_std" in dict(policy.named_parameters())
    assert make().log_std is None


def test_every_weight_gets_a_slope():
    policy = make(BoxSpec((2,)))
    distribution, value, _ = policy(torch.randn(6, 2, 4), {}, None)
    (distribution.log_prob(torch.zeros(6, 2, 2)).sum() + value.sum()).backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in policy.parameters())


def test_loaded_weights_are_the_ones_it_computes_with():
    """The towers keep references to their weights; loading must not leave them behind."""
    policy, other = make(), make()
    other.load_state_dict(policy.state_dict())
    observation = torch.randn(1, 3, 4)
    assert torch.equal(other(observation, {}, None).value, policy(observation, {}, None).value)
