"""Against torch.distributions, which takes another way to every number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import distributions as reference

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.policies.distributions import (
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
    head_size,
    make_distribution,
)

DRAWS = 60_000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_head(size: int) -> torch.Tensor:
    """[T=3, B=4, size]"""
    return torch.randn(3, 4, size, generator=seeded()) * 2


def test_a_choice_has_the_log_probability_and_entropy_of_the_reference():
    logits = random_head(5)
    ours, theirs = Categorical(logits), reference.Categorical(logits=logits)
    action = theirs.sample()
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), theirs.mode)


def test_several_choices_are_independent_ones_added_up():
    counts = (2, 5, 3)
    logits = random_head(sum(counts))
    ours = MultiCategorical(logits, counts)
    theirs = [reference.Categorical(logits=part) for part in logits.split(counts, dim=-1)]
    action = torch.stack([part.sample() for part in theirs], dim=-1)
    expected = sum(part.log_prob(action[..., index]) for index, part in enumerate(theirs))
    torch.testing.assert_close(ours.log_prob(action), expected)
    torch.testing.assert_close(ours.entropy(), sum(part.entropy() for part in theirs))
    assert torch.equal(ours.mode(), torch.stack([part.mode for part in theirs], dim=-1))


def test_numbers_have_the_log_probability_and_entropy_of_the_reference():
    mean, log_std = random_head(3), torch.tensor([-1.0, 0.0, 0.7])
    ours = DiagonalGaussian(mean, log_std)
    theirs = reference.Independent(reference.Normal(mean, log_std.exp()), 1)
    action = theirs.sample()
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), mean)


def test_choices_are_drawn_as_often_as_their_probability_says():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0])
    drawn = Categorical(probabilities.log().expand(1, DRAWS, 5)).sample(seeded())
    frequencies = torch.bincount(drawn.flatten(), minlength=5) / DRAWS
    errors = (probabilities * (1 - probabilities) / DRAWS).sqrt()
    assert bool(((frequencies - probabilities).abs() <= 5 * errors).all())
    assert frequencies[4] == 0.0


def test_parts_of_a_choice_are_drawn_independently():
    drawn = MultiCategorical(torch.zeros(1, DRAWS, 4), (2, 2)).sample(seeded()).float()[0]
    correlation = torch.corrcoef(drawn.T)[0, 1]
    assert abs(float(correlation)) < 5 / DRAWS**0.5


def test_numbers_are_drawn_with_their_mean_and_deviation():
    mean, log_std = torch.tensor([2.0, -1.0]), torch.tensor([0.5, -0.5])
    drawn = DiagonalGaussian(mean.expand(1, DRAWS, 2), log_std).sample(seeded())[0]
    assert bool(((drawn.mean(0) - mean).abs() < 5 * log_std.exp() / DRAWS**0.5).all())
    torch.testing.assert_close(drawn.std(0), log_std.exp(), rtol=0.02, atol=0)


@pytest.mark.parametrize(
    "distribution",
    [
        Categorical(random_head(4)),
        MultiCategorical(random_head(4), (2, 2)),
        DiagonalGaussian(random_head(2), torch.zeros(2)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_generator_decides_what_is_drawn_and_shapes_start_with_time_and_batch(distribution):
    action = distribution.sample(seeded(1))
    assert torch.equal(action, distribution.sample(seeded(1)))
    assert not torch.equal(action, distribution.sample(seeded(2)))
    assert action.shape[:2] == distribution.log_prob(action).shape == distribution.entropy().shape == (3, 4)


def test_slopes_are_those_of_the_reference():
    logits = random_head(5).requires_grad_()
    action = torch.ones(3, 4, dtype=torch.int64)
    ours = torch.autograd.grad((Categorical(logits).log_prob(action) + Categorical(logits).entropy()).sum(), logits)
    theirs = reference.Categorical(logits=logits)
    expected = torch.autograd.grad((theirs.log_prob(action) + theirs.entropy()).sum(), logits)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(
    ("space", "size", "kind"),
    [
        (DiscreteSpec(4), 4, Categorical),
        (MultiDiscreteSpec((2, 3)), 5, MultiCategorical),
        (BoxSpec((2, 3)), 6, DiagonalGaussian),
    ],
)
def test_every_action_space_has_its_distribution(space, size, kind):
    assert head_size(space) == size
    log_std = torch.zeros(size) if kind is DiagonalGaussian else None
    assert isinstance(make_distribution(space, random_head(size), log_std), kind)


def test_a_space_with_parts_cannot_be_acted_in():
    with pytest.raises(UsageError, match="DictSpec"):
        head_size(DictSpec((("a", DiscreteSpec(2)),)))


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
