import copy

import pytest
import torch
from torch import nn

from palaestra.contracts.errors import NonFinite
from palaestra.training.optim import FlatOptimizer


def small_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def descend(optimizer: FlatOptimizer, loss: torch.Tensor) -> float:
    optimizer.backward((loss,), (torch.ones_like(loss),))
    return optimizer.step(max_grad_norm=0.5)


def test_stepping_the_flat_block_equals_torch_adam_with_clipping_parameter_by_parameter():
    ours, theirs = small_network(), small_network()
    flat = FlatOptimizer(ours)
    flat.learning_rate = 0.01
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-5)
    inputs = torch.randn(8, 7, 3, generator=torch.Generator().manual_seed(1))
    for batch in inputs:
        descend(flat, ours(batch).square().sum() * 10)
        adam.zero_grad()
        (theirs(batch).square().sum() * 10).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        adam.step()
    for mine, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, expected, atol=1e-7)


def test_the_norm_told_is_the_one_before_clipping():
    network = small_network()
    loss = network(torch.ones(1, 3)).sum() * 100
    expected = torch.cat([slope.flatten() for slope in torch.autograd.grad(loss, list(network.parameters()))]).norm()
    optimizer = FlatOptimizer(network)
    assert abs(descend(optimizer, network(torch.ones(1, 3)).sum() * 100) - float(expected)) < 1e-3
    assert abs(float(optimizer.grad.norm()) - 0.5) < 1e-5


def test_a_restored_optimizer_steps_like_the_one_that_was_captured():
    first, second = small_network(), small_network()
    one, other = FlatOptimizer(first), FlatOptimizer(second)
    one.learning_rate = other.learning_rate = 0.05
    inputs = torch.randn(6, 7, 3, generator=torch.Generator().manual_seed(1))
    for batch in inputs[:3]:
        descend(one, first(batch).square().sum())
    second.load_state_dict(first.state_dict())
    other.restore(one.capture())
    for batch in inputs[3:]:
        descend(one, first(batch).square().sum())
        descend(other, second(batch).square().sum())
    assert torch.equal(one.flat, other.flat)


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
    optimizer.learning_rate = 0.1
    before = optimizer.flat.detach().clone()
    with pytest.raises(NonFinite, match=r"norm is (nan|inf)\."):
        descend(optimizer, network(torch.ones(1, 3)).sum() * poison)
    assert torch.equal(optimizer.flat, before)


def test_a_finite_loss_with_an_infinite_slope_moves_nothing_either():
    network = small_network()
    optimizer = FlatOptimizer(network)
    before = optimizer.flat.detach().clone()
    zero = (network(torch.ones(1, 3)).sum() * 0.0).abs()
    with pytest.raises(NonFinite, match="norm is nan"):
        descend(optimizer, zero.sqrt())
    assert torch.equal(optimizer.flat, before)
