import copy

import pytest
import torch
from torch import nn

from palaestra.contracts.errors import NonFinite
from palaestra.training.optim import FlatOptimizer


def small_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def losses(network: nn.Module, count: int = 8):
    inputs = torch.randn(count, 7, 3, generator=torch.Generator().manual_seed(1))
    return [network(batch).square().sum() * 10 for batch in inputs]


def test_stepping_the_flat_block_equals_torch_adam_with_clipping_parameter_by_parameter():
    ours, theirs = small_network(), small_network()
    flat = FlatOptimizer(ours)
    flat.set_learning_rate(0.01)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-5)
    inputs = torch.randn(8, 7, 3, generator=torch.Generator().manual_seed(1))
    for batch in inputs:
        flat.step(ours(batch).square().sum() * 10, max_grad_norm=0.5)
        adam.zero_grad()
        (theirs(batch).square().sum() * 10).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        adam.step()
    for mine, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, expected, atol=1e-7)


def test_the_networks_own_names_and_values_are_unchanged_by_flattening():
    network = small_network()
    before = copy.deepcopy(network.state_dict())
    FlatOptimizer(network)
    assert list(network.state_dict()) == list(before)
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())


def test_loading_a_state_dict_reaches_the_block_that_adam_steps():
    network = small_network()
    optimizer = FlatOptimizer(network)
    network.load_state_dict({name: torch.full_like(value, 3.0) for name, value in network.state_dict().items()})
    assert torch.equal(optimizer.flat.data, torch.full_like(optimizer.flat.data, 3.0))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_moves_nothing(poison):
    network = small_network()
    optimizer = FlatOptimizer(network)
    optimizer.set_learning_rate(0.1)
    before = optimizer.flat.detach().clone()
    with pytest.raises(NonFinite, match=r"The loss is (nan|-?inf)\."):
        optimizer.step(network(torch.ones(1, 3)).sum() * poison, max_grad_norm=0.5)
    assert torch.equal(optimizer.flat, before)


def test_a_finite_loss_with_an_infinite_slope_moves_nothing_either():
    network = small_network()
    optimizer = FlatOptimizer(network)
    before = optimizer.flat.detach().clone()
    zero = (network(torch.ones(1, 3)).sum() * 0.0).abs()
    with pytest.raises(NonFinite, match="gradient is not finite"):
        optimizer.step(zero.sqrt(), max_grad_norm=0.5)
    assert torch.equal(optimizer.flat, before)
