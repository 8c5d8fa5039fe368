import numpy as np
import pytest
import torch

from palaestra.algorithms.td3.loss import actor_gradient, noisy_actions


def test_noise_is_scaled_cut_and_kept_inside_the_bounds():
    actions, noise = (
        np.random.default_rng(0).uniform(-1, 1, (1, 500, 2)),
        np.random.default_rng(1).normal(size=(1, 500, 2)),
    )
    expected = np.clip(actions + np.clip(0.2 * noise, -0.3, 0.3), -1, 1)
    found = noisy_actions(torch.from_numpy(actions), torch.from_numpy(noise), 0.2, 0.3)
    np.testing.assert_allclose(found.numpy(), expected)
    assert (np.abs(expected) == 1).any()
    assert np.isclose(np.abs(expected - actions), 0.3).any()


def test_exploration_is_not_cut():
    noisy = noisy_actions(torch.zeros(1, 1, 1), torch.full((1, 1, 1), 3.0), 0.2)
    assert noisy.item() == pytest.approx(0.6)


def test_without_deviation_nothing_changes():
    actions = torch.tensor([[[0.3, -1.0]]])
    assert torch.equal(noisy_actions(actions, torch.ones(1, 1, 2), 0.0, 0.5), actions)


def test_the_actor_goes_up_the_mean_value():
    taken = torch.randn(1, 6, 2, dtype=torch.float64, requires_grad=True)
    (by_action,) = torch.autograd.grad((taken * taken).sum(dim=-1).sum(), taken)
    (expected,) = torch.autograd.grad(-(taken * taken).sum(dim=-1).mean(), taken)
    torch.testing.assert_close(actor_gradient(by_action), expected)
