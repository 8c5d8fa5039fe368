import numpy as np
import torch

from palaestra.core.spaces import BoxSpec, DiscreteSpec
from palaestra.policies.distributions import Categorical, SquashedGaussian
from palaestra.policies.role_distributions import ActionValues, DeterministicAction, role_distribution

BOUNDS = (torch.tensor([-2.0, -1.0]), torch.tensor([2.0, 3.0]))
BOX = BoxSpec((2,), low=(-2.0, -1.0), high=(2.0, 3.0))


def test_the_greedy_action_has_the_largest_value_and_probability_one():
    values = ActionValues(torch.tensor([[[0.0, 3.0, 1.0], [2.0, 2.0, 1.0]]]))
    assert values.mode().tolist() == values.sample().tolist() == [[1, 0]]  # the first of equal ones
    assert values.value().tolist() == [[3.0, 2.0]]
    assert values.log_prob(torch.tensor([[1, 1]])).tolist() == [[0.0, -torch.inf]]
    assert values.entropy().tolist() == [[0.0, 0.0]]


def test_a_deterministic_action_is_scaled_to_its_bounds():
    actor = role_distribution("deterministic_actor", BOX, torch.tensor([[[0.0, 50.0], [-50.0, 0.0]]]), BOUNDS)
    assert isinstance(actor, DeterministicAction)
    assert actor.mode().tolist() == actor.sample().tolist() == [[[0.0, 3.0], [-2.0, 1.0]]]
    assert actor.log_prob(actor.mode()).tolist() == [[0.0, 0.0]]
    assert actor.log_prob(actor.mode() + 0.5).tolist() == [[-torch.inf, -torch.inf]]


def test_the_deviation_of_a_squashed_gaussian_is_given_for_each_state_and_clamped():
    numbers = torch.tensor([[[0.1, 0.2, -50.0, 50.0]]])
    actor = role_distribution("stochastic_actor", BOX, numbers, BOUNDS)
    assert isinstance(actor, SquashedGaussian)
    torch.testing.assert_close(actor.mean, numbers[..., :2])
    assert actor.log_std.tolist() == [[[-20.0, 2.0]]]


def test_a_stochastic_actor_of_discrete_actions_is_a_categorical():
    actor = role_distribution("stochastic_actor", DiscreteSpec(3), torch.zeros(1, 1, 3), (torch.empty(0),) * 2)
    assert isinstance(actor, Categorical)


def density_of(mean, std, low, high):
    """Of low + (tanh(u) + 1) / 2 (high - low) with u normal, from the derivative of its distribution function."""

    def density(action):
        u = np.arctanh(2 * (action - low) / (high - low) - 1)
        unit = (action - (low + high) / 2) * 2 / (high - low)
        normal = np.exp(-0.5 * ((u - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
        return normal / ((high - low) / 2 * (1 - unit**2))

    return density


def test_the_log_probability_of_a_sample_is_the_density_of_the_action_in_the_environments_units():
    mean, log_std = torch.tensor([[[0.4, -0.7]]]), torch.tensor([[[-0.3, 0.2]]])
    actor = SquashedGaussian(mean, log_std, *BOUNDS)
    noise = torch.tensor([[[1.3, -0.6]]])
    unit, log_prob = actor.sample_unit(noise)
    expected = 0.0
    for entry, (low, high) in enumerate(((-2.0, 2.0), (-1.0, 3.0))):
        density = density_of(float(mean[0, 0, entry]), float(log_std[0, 0, entry].exp()), low, high)
        grid = np.linspace(low + 1e-6, high - 1e-6, 1_000_001)
        mass = np.trapezoid(density(grid), grid)
        assert abs(mass - 1) < 1e-3  # the reference is a density
        action = (low + high) / 2 + (high - low) / 2 * float(unit[0, 0, entry])
        expected += np.log(density(action))
    assert abs(float(log_prob) - expected) < 1e-5
    middle, half_width = (BOUNDS[0] + BOUNDS[1]) / 2, (BOUNDS[1] - BOUNDS[0]) / 2
    torch.testing.assert_close(actor.log_prob(middle + half_width * unit), log_prob)


def test_the_log_probability_is_exact_where_tanh_rounds_to_one():
    actor = SquashedGaussian(torch.full((1, 1, 2), 40.0), torch.zeros(1, 1, 2), *BOUNDS)
    unit, log_prob = actor.sample_unit(torch.zeros(1, 1, 2))
    assert unit.tolist() == [[[1.0, 1.0]]]
    one = -0.5 * np.log(2 * np.pi) - (np.log(2.0) + 2 * np.log(2.0) - 80.0)  # 1 - tanh(40)^2 = 4 exp(-80)
    assert abs(float(log_prob) - 2 * one) < 1e-4


def test_samples_have_a_gradient_by_mean_and_deviation():
    numbers = torch.tensor([[[0.3, -0.2, -0.5, 0.1]]], dtype=torch.float64, requires_grad=True)
    noise = torch.tensor([[[0.7, -1.1]]], dtype=torch.float64)
    bounds = tuple(bound.double() for bound in BOUNDS)

    def sampled(given):
        unit, log_prob = role_distribution("stochastic_actor", BOX, given, bounds).sample_unit(noise)
        return unit.sum() * 3 + log_prob.sum()

    assert torch.autograd.gradcheck(sampled, (numbers,))
