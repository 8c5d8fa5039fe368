"""Target networks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.targets import TargetNetwork
from palaestra.config.optimizer import OptimizerConfig


def network_and_target(kind="adam"):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = FlatOptimizer(network, OptimizerConfig(kind=kind))
    return network, optimizer, TargetNetwork(network, optimizer)


@pytest.mark.parametrize("kind", ["adam", "muon"])
@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_a_target_goes_its_part_of_the_way_parameter_by_parameter(kind, tau):
    network, optimizer, target = network_and_target(kind)
    before = [parameter.clone() for parameter in target.network.parameters()]
    assert all(torch.equal(own, other) for own, other in zip(before, network.parameters(), strict=True))
    optimizer.flat.add_(torch.randn(optimizer.flat.shape, generator=torch.Generator().manual_seed(1)))
    target.follow(tau)
    for old, now, trained in zip(before, target.network.parameters(), network.parameters(), strict=True):
        assert torch.allclose(now, tau * trained + (1 - tau) * old, atol=1e-6)


def test_training_moves_the_network_and_not_its_target():
    network, optimizer, target = network_and_target()
    before = target.flat.clone()
    optimizer.learning_rate = 0.1
    loss = (network(torch.ones(2, 3)) - target.network(torch.zeros(2, 3))).square().sum()
    optimizer.backward((loss,), (torch.ones_like(loss),))
    optimizer.step(10.0)
    assert torch.equal(target.flat, before)
    assert not torch.equal(optimizer.flat, before)


def test_a_target_is_restored():
    _, optimizer, target = network_and_target()
    saved = target.capture()
    optimizer.flat.add_(1)
    target.follow(1.0)
    assert not torch.equal(target.flat, saved)
    target.restore(saved)
    assert torch.equal(torch.cat([part.flatten() for part in target.network.parameters()]), saved)
