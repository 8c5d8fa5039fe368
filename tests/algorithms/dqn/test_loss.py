"""DQN's targets and loss, against their definitions written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import huber_loss, mse_loss

from palaestra.algorithms.dqn.loss import td_loss, td_targets

REWARDS = torch.tensor([[1.0, -2.0, 0.5]])
DISCOUNTS = torch.tensor([[0.9, 0.0, 0.81]])  # one step, terminated, two steps
TARGET = torch.tensor([[[1.0, 4.0], [100.0, 200.0], [3.0, -1.0]]])
ONLINE = torch.tensor([[[9.0, 5.0], [0.0, 1.0], [0.0, 1.0]]])


def test_a_target_is_the_rewards_and_the_discounted_largest_value():
    expected = [1 + 0.9 * 4, -2.0, 0.5 + 0.81 * 3]
    np.testing.assert_allclose(td_targets(REWARDS, DISCOUNTS, TARGET, None)[0], expected, rtol=1e-6)


def test_double_q_learning_chooses_with_the_network_and_values_with_the_target():
    expected = [1 + 0.9 * 1, -2.0, 0.5 + 0.81 * -1]
    np.testing.assert_allclose(td_targets(REWARDS, DISCOUNTS, TARGET, ONLINE)[0], expected, rtol=1e-6)


@pytest.mark.parametrize(("kind", "reference"), [("mse", mse_loss), ("huber", huber_loss)])
@pytest.mark.parametrize("weights", [None, [[0.5, 1.0, 0.1, 0.7]]])
def test_loss_and_gradient_are_those_of_torch(kind, reference, weights):
    values = torch.tensor([[0.3, -4.0, 2.0, 1.0]], requires_grad=True)
    targets = torch.tensor([[0.0, 1.0, 1.5, 1.0]])
    scale = torch.ones(1, 4) if weights is None else torch.tensor(weights)
    expected = (reference(values, targets, reduction="none") * scale).mean()
    expected.backward()
    loss, gradient = td_loss(values.detach() - targets, None if weights is None else scale, kind)
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-6)
    torch.testing.assert_close(gradient, values.grad)
