import copy

import numpy as np
import pytest
import torch
from torch import nn

from palaestra.algorithms.critics import action_gradient, new_critics, squared_errors
from palaestra.algorithms.group import ALONE
from palaestra.algorithms.off_policy import CRITIC_ENTRIES
from palaestra.config.off_policy import ADAM
from palaestra.config.policy import PolicyConfig
from palaestra.core.spaces import BoxSpec, EnvInterface

INTERFACE = EnvInterface(BoxSpec((3,)), BoxSpec((2,), low=(-1.0,), high=(1.0,)))
CPU = torch.device("cpu")
POLICY = PolicyConfig(graph="mlp", settings={"hidden": [5]})


def critics_of(count=2, seed=0, shared=None):
    torch.manual_seed(seed)
    return new_critics(POLICY, INTERFACE, count, ADAM, CPU, shared)


def drawn(*shape):
    return torch.randn(1, 8, *shape)


def test_errors_and_their_gradient_are_those_of_the_sum_of_means():
    values, targets = torch.randn(2, 1, 8, requires_grad=True), torch.randn(1, 8)
    each = [nn.functional.mse_loss(one, targets) for one in values]
    (expected,) = torch.autograd.grad(sum(each), values)
    losses, gradients = squared_errors(values.detach(), targets)
    torch.testing.assert_close(losses, torch.stack(each).detach())
    torch.testing.assert_close(gradients, expected)


def test_all_critics_are_one_block_and_step_as_with_one_adam():
    critics, observations, actions = critics_of(), drawn(3), drawn(2)
    assert critics.optimizer.flat.numel() == 2 * (6 * 5 + 6)
    plain = copy.deepcopy(critics.networks)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    for _ in range(3):
        targets = drawn()
        figures = critics.step(critics.values(observations, actions), targets, 0.01, ALONE)
        losses = [nn.functional.mse_loss(critic(observations, actions), targets) for critic in plain]
        assert figures.losses == pytest.approx([float(loss.detach()) for loss in losses], rel=1e-5)
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
    for one, other in zip(critics.networks.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_smallest_target_counts_and_targets_stand_still_until_they_follow():
    critics, observations, actions = critics_of(), drawn(3), drawn(2)
    before = critics.target_values(observations, actions)
    torch.testing.assert_close(before, critics.values(observations, actions).detach().min(dim=0).values)
    critics.step(critics.values(observations, actions), drawn(), 0.01, ALONE)
    assert torch.equal(critics.target_values(observations, actions), before)
    critics.target.follow(0.5)
    assert not torch.equal(critics.target_values(observations, actions), before)


def test_the_gradient_by_actions_leaves_no_gradient_in_the_critics():
    critics, observations, actions = critics_of(), drawn(3), drawn(2).requires_grad_()
    found = action_gradient(critics.values(observations, actions).amin(dim=0), actions)
    step = 1e-3
    for entry in np.ndindex(1, 8, 2):
        up, down = actions.detach().clone(), actions.detach().clone()
        up[entry] += step
        down[entry] -= step
        values = [critics.values(observations, each).amin(dim=0).sum().item() for each in (up, down)]
        assert found[entry].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=2e-3)
    assert not critics.optimizer.grad.any()


def test_a_capture_brings_weights_targets_and_optimizer_back():
    critics, other = critics_of(), critics_of(seed=1)
    critics.step(critics.values(drawn(3), drawn(2)), drawn(), 0.01, ALONE)
    critics.target.follow(0.3)
    saved = critics.capture()
    assert tuple(saved) == CRITIC_ENTRIES
    other.restore(saved)
    observations, actions, targets = drawn(3), drawn(2), drawn()
    for each in (critics, other):
        each.step(each.values(observations, actions), targets, 0.01, ALONE)
        each.target.follow(0.3)
    assert torch.equal(critics.optimizer.flat, other.optimizer.flat)
    assert torch.equal(critics.target.flat, other.target.flat)


def test_memory_of_an_engine_is_taken_as_it_is_and_draws_nothing():
    own = critics_of()
    shared = {name: part.numpy().copy() for name, part in own.optimizer.adam_memory().items()}
    shared["target"] = own.target.flat.numpy() + 1
    torch.manual_seed(5)
    before = torch.get_rng_state()
    critics = new_critics(POLICY, INTERFACE, 2, ADAM, CPU, shared)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(critics.optimizer.flat, own.optimizer.flat)
    critics.step(critics.values(drawn(3), drawn(2)), drawn(), 0.01, ALONE)
    assert np.array_equal(shared["values"], critics.optimizer.flat.numpy())
    assert np.array_equal(shared["target"], own.target.flat.numpy() + 1)


def test_compiled_critics_give_the_same_values():
    plain, compiled = critics_of(), critics_of()
    compiled.compile(backend="eager")
    compiled.compile(backend="eager")  # a second time does nothing
    observations, actions = drawn(3), drawn(2)
    torch.testing.assert_close(compiled.values(observations, actions), plain.values(observations, actions))
