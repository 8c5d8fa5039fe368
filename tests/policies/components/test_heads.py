import pytest
import torch

from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.components.base import Misfit
from palaestra.policies.distributions import Categorical, DiagonalGaussian, MultiCategorical, SquashedGaussian

BOUNDED = BoxSpec((2,), "float32", (-1.0,), (1.0,))


def acting_in(space):
    return EnvInterface(BoxSpec((4,)), space)


@pytest.mark.parametrize(
    ("space", "size", "kind"),
    [
        (DiscreteSpec(5), 5, Categorical),
        (MultiDiscreteSpec((3, 2)), 5, MultiCategorical),
        (BOUNDED, 2, DiagonalGaussian),
    ],
)
def test_the_head_follows_from_the_action_space(make, space, size, kind):
    head = make("action_head", [4], interface=acting_in(space))
    assert head.output.shape == (size,)
    distribution = head.distribution(head(torch.randn(6, 4)).view(3, 2, -1))
    assert isinstance(distribution, kind)
    assert distribution.entropy().shape == (3, 2)


def test_the_first_policy_is_near_uniform(make):
    head = make("action_head", [64], interface=acting_in(DiscreteSpec(4)))
    chances = head.distribution(head(torch.randn(100, 64)).view(100, 1, -1)).log_probs.exp()
    assert (chances - 0.25).abs().max() < 0.02


def test_one_deviation_for_all_states_or_one_of_each(make):
    fixed = make("action_head", [4], interface=acting_in(BOUNDED), log_std=-1.0)
    assert fixed.log_std.tolist() == [-1.0, -1.0]
    of_state = make("action_head", [4], interface=acting_in(BOUNDED), log_std=-1.0, state_dependent_std=True, gain=1.0)
    assert of_state.log_std is None
    rows = torch.randn(3, 4)
    distribution = of_state.distribution(of_state(rows).view(3, 1, -1))
    torch.testing.assert_close(distribution.mean[:, 0], rows @ of_state.layer.weight[:2].T)
    torch.testing.assert_close(distribution.log_std[:, 0], rows @ of_state.layer.weight[2:].T - 1.0)
    assert distribution.entropy().unique().numel() == 3


def test_squashing_is_a_setting(make):
    head = make("action_head", [4], interface=acting_in(BOUNDED), squash=True)
    assert isinstance(head.distribution(torch.zeros(1, 1, 2)), SquashedGaussian)


@pytest.mark.parametrize(
    ("space", "settings", "complaint"),
    [
        (BoxSpec((2,)), {"squash": True}, "finite bounds"),
        (DiscreteSpec(2), {"squash": True}, "squash=true is for continuous actions"),
        (DiscreteSpec(2), {"state_dependent_std": True}, "state_dependent_std=true is for continuous actions"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(make, space, settings, complaint):
    with pytest.raises(Misfit, match=complaint):
        make("action_head", [4], interface=acting_in(space), **settings)


def test_actions_are_scored_by_a_bilinear_form(make):
    torch.manual_seed(0)
    head = make("action_embedding_head", [4], interface=acting_in(DiscreteSpec(3)), size=6, gain=1.0)
    head.bias.data = torch.tensor([0.1, 0.2, 0.3])
    rows = torch.randn(2, 4)
    for action in range(3):
        scores = [row @ head.form.T @ head.embeddings[action] + head.bias[action] for row in rows]
        torch.testing.assert_close(head(rows)[:, action], torch.stack(scores))
    assert isinstance(head.distribution(torch.zeros(1, 1, 3)), Categorical)


def test_continuous_actions_have_no_embeddings(make):
    with pytest.raises(Misfit, match="use an action_head"):
        make("action_embedding_head", [4], interface=acting_in(BOUNDED))


def test_the_value_is_one_number_and_begins_with_gain_one(make):
    head = make("value_head", [9])
    assert head(torch.randn(5, 9)).shape == (5, 1)
    assert head.layer.weight.norm().item() == pytest.approx(1.0)
