import math

import numpy as np
import pytest
import torch

from palaestra.algorithms.sac.loss import (
    expected_actor_gradient,
    expected_soft_values,
    sampled_actor_gradients,
    soft_values,
    target_entropy_of,
    temperature_gradient,
)
from palaestra.core.spaces import BoxSpec, DiscreteSpec
from palaestra.policies.distributions import SquashedGaussian

LOW, HIGH = torch.tensor([-2.0, 0.0], dtype=torch.float64), torch.tensor([2.0, 1.0], dtype=torch.float64)


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def test_soft_values_are_values_less_the_temperature_times_the_log_probability():
    values, log_probs = drawn(1, 5), drawn(1, 5, seed=1)
    expected = [value - 0.3 * log for value, log in zip(values[0].tolist(), log_probs[0].tolist(), strict=True)]
    assert soft_values(values, log_probs, 0.3)[0].tolist() == pytest.approx(expected)


def test_for_discrete_actions_the_expectation_is_taken_over_all_of_them():
    values, logits = drawn(1, 4, 3), drawn(1, 4, 3, seed=1)
    found = expected_soft_values(values, torch.log_softmax(logits, -1), 0.3)
    for row in range(4):
        chances = np.exp(logits[0, row].numpy()) / np.exp(logits[0, row].numpy()).sum()
        sampled = sum(
            chance * (value - 0.3 * math.log(chance))
            for chance, value in zip(chances, values[0, row].tolist(), strict=True)
        )
        assert float(found[0, row]) == pytest.approx(sampled)


def test_the_expectation_is_the_mean_over_many_drawn_actions():
    values, log_probs = drawn(1, 1, 3), torch.log_softmax(drawn(1, 1, 3, seed=1), -1)
    choices = np.random.default_rng(2).choice(3, 200_000, p=log_probs[0, 0].exp().numpy())
    samples = soft_values(values[0, 0, choices], log_probs[0, 0, choices], 0.3)
    assert float(expected_soft_values(values, log_probs, 0.3)) == pytest.approx(float(samples.mean()), abs=0.01)


def test_the_actors_gradient_is_that_of_its_loss_by_finite_differences():
    """mean(alpha log_prob - min(q1, q2)) with quadratic critics, by means and deviations of the actor."""
    numbers, noise = 0.5 * drawn(1, 6, 4), drawn(1, 6, 2, seed=1)
    centres = (0.3, -0.4)

    def critic_values(actions):
        return torch.stack([-(actions - centre).square().sum(-1) * (1 + centre) for centre in centres])

    def loss_of(given):
        actions, log_probs = SquashedGaussian(given[..., :2], given[..., 2:], LOW, HIGH).sample_unit(noise)
        return (0.3 * log_probs - critic_values(actions).amin(0)).mean()

    given = numbers.clone().requires_grad_()
    actions, log_probs = SquashedGaussian(given[..., :2], given[..., 2:], LOW, HIGH).sample_unit(noise)
    taken = actions.detach().requires_grad_()
    (value_gradient,) = torch.autograd.grad(critic_values(taken).amin(0).sum(), taken)
    torch.autograd.backward([actions, log_probs], sampled_actor_gradients(value_gradient, log_probs.detach(), 0.3))
    step = 1e-6
    for entry in np.ndindex(1, 6, 4):
        up, down = numbers.clone(), numbers.clone()
        up[entry] += step
        down[entry] -= step
        difference = float((loss_of(up) - loss_of(down)) / (2 * step))
        assert float(given.grad[entry]) == pytest.approx(difference, abs=1e-7)


def test_the_gradient_of_the_expectation_by_finite_differences():
    values, logits = drawn(1, 6, 3), drawn(1, 6, 3, seed=1)

    def loss_of(given):
        return -expected_soft_values(values, torch.log_softmax(given, -1), 0.3).mean()

    given = logits.clone().requires_grad_()
    log_probs = torch.log_softmax(given, -1)
    log_probs.backward(expected_actor_gradient(values, log_probs.detach(), 0.3))
    step = 1e-6
    for entry in np.ndindex(1, 6, 3):
        up, down = logits.clone(), logits.clone()
        up[entry] += step
        down[entry] -= step
        difference = float((loss_of(up) - loss_of(down)) / (2 * step))
        assert float(given.grad[entry]) == pytest.approx(difference, abs=1e-7)


def test_too_little_entropy_raises_the_temperature_and_too_much_lowers_it():
    assert temperature_gradient(entropy=-3.0, target_entropy=-2.0) < 0  # descending raises log alpha
    assert temperature_gradient(entropy=-1.0, target_entropy=-2.0) > 0
    assert temperature_gradient(entropy=0.5, target_entropy=-2.0) == 2.5  # of log alpha: without alpha itself


@pytest.mark.parametrize(
    ("space", "configured", "expected"),
    [
        (BoxSpec((6,)), None, -6.0),
        (BoxSpec((2, 3)), None, -6.0),
        (BoxSpec((6,)), -1.5, -1.5),
        (DiscreteSpec(4), None, 0.89 * math.log(4)),
        (DiscreteSpec(4), 0.5, 0.5),
    ],
)
def test_the_target_entropy_follows_from_the_action_space(space, configured, expected):
    assert target_entropy_of(space, configured) == pytest.approx(expected)
