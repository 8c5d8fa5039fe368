"""Against torch.distributions, which takes another way to every number."""

import pytest
import torch
from torch import distributions as reference

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.policies.distributions import (
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
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
