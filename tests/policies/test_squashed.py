import math

import pytest
import torch

from palaestra.core.spaces import BoxSpec
from palaestra.policies.distributions import make_distribution
from palaestra.policies.squashed import SquashedGaussian

LOW, HIGH = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 1.0])


def squashed(mean=(0.3, -0.8), log_std=(-0.5, 0.4)):
    return SquashedGaussian(torch.tensor([[mean]]), torch.tensor(log_std), LOW, HIGH)


def density_on_a_grid(mean, std, low, high, count=200_001):
    """Of one action, straight from the definition of the density of a transformed normal, in double."""
    actions = torch.linspace(low, high, count, dtype=torch.float64)[1:-1]
    scaled = (actions - (low + high) / 2) / ((high - low) / 2)
    u = torch.atanh(scaled)
    normal = torch.exp(-0.5 * ((u - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    return actions, normal / ((high - low) / 2 * (1 - scaled**2))


def test_the_density_is_that_of_the_transformed_normal_and_sums_to_one():
    actions, density = density_on_a_grid(0.3, 0.7, -1.0, 3.0)
    one = SquashedGaussian(
        torch.full((1, 1, 1), 0.3), torch.tensor([math.log(0.7)]), torch.tensor([-1.0]), torch.tensor([3.0])
    )
    chosen = actions[:: len(actions) // 50]
    ours = torch.stack([one.log_prob(action.float().view(1, 1, 1)) for action in chosen]).flatten()
    inside = density[:: len(actions) // 50].log().float()
    keep = inside > -20  # beyond, float32 actions cannot say how near the bound they are
    torch.testing.assert_close(ours[keep], inside[keep], atol=1e-3, rtol=1e-3)
    assert torch.trapezoid(density, actions) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.1), (0.0, 1.0), (0.8, 0.5), (-1.5, 1.0), (0.3, 2.0)])
def test_the_entropy_is_that_of_slow_integration(mean, std):
    actions, density = density_on_a_grid(mean, std, -2.0, 2.0, 2_000_001)
    expected = -torch.trapezoid(density * density.clamp_min(1e-300).log(), actions)
    bounds = torch.tensor([-2.0]), torch.tensor([2.0])
    ours = SquashedGaussian(torch.full((1, 1, 1), mean), torch.tensor([math.log(std)]), *bounds).entropy()
    assert ours.shape == (1, 1)
    assert float(ours) == pytest.approx(float(expected), abs=0.01)


def test_the_entropy_has_a_gradient_to_mean_and_deviation():
    mean, log_std = torch.full((1, 1, 2), 0.5, requires_grad=True), torch.zeros(2, requires_grad=True)
    SquashedGaussian(mean, log_std, LOW, HIGH).entropy().sum().backward()
    assert (mean.grad < 0).all(), "nearer the bounds there is less room"
    assert log_std.grad.isfinite().all()


def test_samples_stay_inside_and_have_finite_densities():
    wild = SquashedGaussian(torch.full((1, 500, 2), 30.0), torch.zeros(2), LOW, HIGH)
    actions = wild.sample(torch.Generator().manual_seed(0))
    assert ((actions > LOW) & (actions <= HIGH)).all()
    assert wild.log_prob(actions).isfinite().all()


def test_samples_have_the_mean_that_the_density_says():
    actions, density = density_on_a_grid(0.3, math.exp(-0.5), -2.0, 2.0)
    expected = float(torch.trapezoid(density * actions, actions))
    many = SquashedGaussian(torch.tensor([[[0.3, -0.8]]]).expand(1, 200_000, 2), torch.tensor([-0.5, 0.4]), LOW, HIGH)
    assert float(many.sample(torch.Generator().manual_seed(1))[..., 0].mean()) == pytest.approx(expected, abs=0.01)


def test_the_mode_is_the_squashed_mean():
    expected = torch.stack([2 * torch.tanh(torch.tensor(0.3)), 0.5 + 0.5 * torch.tanh(torch.tensor(-0.8))])
    torch.testing.assert_close(squashed().mode()[0, 0], expected)


def test_the_door_makes_one_with_the_spaces_bounds():
    space = BoxSpec((2,), "float32", (-2.0, 0.0), (2.0, 1.0))
    made = make_distribution(space, torch.tensor([[[0.3, -0.8]]]), torch.tensor([-0.5, 0.4]), squash=True)
    action = torch.tensor([[[0.7, 0.2]]])
    torch.testing.assert_close(made.log_prob(action), squashed().log_prob(action))
