from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from palaestra.algorithms.optimizers import FlatOptimizer, Regularizer, group_parameters
from palaestra.config.optimizer import OptimizerConfig, RegularizeConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NonFinite
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train


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


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_rectified_adam_equals_torchs(weight_decay):
    ours, theirs = small_network(), small_network()
    flat = FlatOptimizer(ours, OptimizerConfig(kind="radam", epsilon=1e-8, weight_decay=weight_decay))
    flat.learning_rate = 0.01
    radam = torch.optim.RAdam(theirs.parameters(), lr=0.01, weight_decay=weight_decay, decoupled_weight_decay=True)
    inputs = torch.randn(12, 7, 3, generator=torch.Generator().manual_seed(1))  # five steps before the rectification
    for batch in inputs:
        descend(flat, ours(batch).square().sum() * 10)
        radam.zero_grad()
        (theirs(batch).square().sum() * 10).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        radam.step()
        for mine, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(mine, expected, atol=1e-6)


def test_the_norm_told_is_the_one_before_clipping():
    network = small_network()
    loss = network(torch.ones(1, 3)).sum() * 100
    expected = torch.cat(
        [gradient.flatten() for gradient in torch.autograd.grad(loss, list(network.parameters()))]
    ).norm()
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


@pytest.mark.fault("R9")
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_moves_nothing(poison):
    network = small_network()
    optimizer = FlatOptimizer(network)
    optimizer.learning_rate = 0.1
    before = optimizer.flat.detach().clone()
    with pytest.raises(NonFinite, match=r"norm is (nan|inf)\."):
        descend(optimizer, network(torch.ones(1, 3)).sum() * poison)
    assert torch.equal(optimizer.flat, before)


@pytest.mark.fault("R9")
def test_a_finite_loss_with_an_infinite_slope_moves_nothing_either():
    network = small_network()
    optimizer = FlatOptimizer(network)
    before = optimizer.flat.detach().clone()
    zero = (network(torch.ones(1, 3)).sum() * 0.0).abs()
    with pytest.raises(NonFinite, match="norm is nan"):
        descend(optimizer, zero.sqrt())
    assert torch.equal(optimizer.flat, before)


def hidden_network() -> nn.Sequential:
    """Two hidden matrices for Muon; an embedding, a head of one row and the biases for Adam."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 1))


def test_muon_steps_hidden_matrices_as_torchs_muon_does_and_the_rest_as_adam():
    ours, theirs = hidden_network(), hidden_network()
    config = OptimizerConfig(kind="muon", beta1=0.8, beta2=0.99, epsilon=1e-4, weight_decay=0.1, momentum=0.9)
    flat = FlatOptimizer(ours, config)
    matrices = [theirs[1].weight, theirs[3].weight]
    rest = [p for p in theirs.parameters() if all(p is not matrix for matrix in matrices)]
    muon = torch.optim.Muon(matrices, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(rest, betas=(0.8, 0.99), eps=1e-4, weight_decay=0.1)
    inputs = torch.randint(6, (8, 7), generator=torch.Generator().manual_seed(1))
    for number, batch in enumerate(inputs):
        flat.learning_rate = muon.param_groups[0]["lr"] = adam.param_groups[0]["lr"] = 0.01 / (number + 1)
        descend(flat, ours(batch).square().sum())
        theirs.zero_grad()
        theirs(batch).square().sum().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        muon.step()
        adam.step()
    for mine, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_a_restored_optimizer_of_each_kind_steps_bit_for_bit_like_the_captured_one(kind):
    first, second = hidden_network(), hidden_network()
    config = OptimizerConfig(kind=kind, weight_decay=0.01)
    one, other = FlatOptimizer(first, config), FlatOptimizer(second, config)
    one.learning_rate = other.learning_rate = 0.05
    inputs = torch.randint(6, (6, 7), generator=torch.Generator().manual_seed(1))
    for batch in inputs[:3]:
        descend(one, first(batch).square().sum())
    second.load_state_dict(first.state_dict())
    captured = one.capture()
    other.restore(captured)
    for batch in inputs[3:]:
        descend(one, first(batch).square().sum())
        descend(other, second(batch).square().sum())
    assert torch.equal(one.flat, other.flat)

    for part in captured:
        third = hidden_network()
        forgetful = FlatOptimizer(third, config)
        forgetful.learning_rate = 0.05
        third.load_state_dict(first.state_dict())
        forgetful.restore({**captured, part: torch.zeros_like(captured[part])})
        before = FlatOptimizer(hidden_network(), config).capture()
        assert not torch.equal(captured[part], before[part]), f"{part} is the same as at the start"


def test_weight_decay_takes_its_share_apart_from_the_gradient():
    network = nn.Linear(2, 2, bias=False)
    optimizer = FlatOptimizer(network, OptimizerConfig(weight_decay=0.5))
    optimizer.learning_rate = 0.1
    before = optimizer.flat.detach().clone()
    optimizer.grad.zero_()
    optimizer.step(max_grad_norm=1.0)
    assert torch.allclose(optimizer.flat, before * (1 - 0.1 * 0.5))


class Everything(Policy):
    """One of each kind of weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 16)
        self.queries = nn.Parameter(torch.randn(5, 16))
        self.hidden = nn.Linear(16, 24)
        self.memory = nn.LSTM(24, 8)
        self.kernel = nn.Conv2d(3, 4, 3)
        self.norm = nn.LayerNorm(8)
        self.action_head = nn.Linear(8, 3)
        self.value_head = nn.Linear(8, 1)
        self.tied = self.hidden  # the same module under another name


def names_of(policy: nn.Module, parameters) -> set[str]:
    by_identity = {id(parameter): name for name, parameter in policy.named_parameters()}
    return {by_identity[id(parameter)] for parameter in parameters}


def test_muon_gets_hidden_matrices_and_nothing_else():
    agent = Agent(
        Everything(),
        EnvInterface(BoxSpec((4,)), DiscreteSpec(3)),
        normalize_observations=False,
        normalize_returns=False,
    )
    groups = group_parameters(agent)
    assert names_of(agent, groups.muon) == {
        "network.hidden.weight",
        "network.memory.weight_ih_l0",
        "network.memory.weight_hh_l0",
    }


def test_every_parameter_is_in_exactly_one_group():
    network = Everything()
    groups = group_parameters(network)
    grouped = [id(parameter) for parameter in (*groups.adam, *groups.muon)]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == {id(parameter) for parameter in network.parameters()}


def test_l2_init_alone_gives_the_gradient_of_the_distance_to_the_initial_weights():
    torch.manual_seed(0)
    network = nn.Linear(3, 2)
    initial = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    optimizer = FlatOptimizer(network, regularize=RegularizeConfig(l2_init=0.3))
    with torch.no_grad():
        optimizer.flat.add_(torch.arange(8.0))
    weights = optimizer.flat.clone().requires_grad_()
    (expected,) = torch.autograd.grad(0.3 / 2 * (weights - initial).square().sum(), weights)
    optimizer.grad.zero_()
    optimizer.regularizer.add_gradients(optimizer.grad, optimizer.flat)
    assert torch.allclose(optimizer.grad, expected)
    assert all(float(parameter.grad.norm()) > 0 for parameter in network.parameters())


def test_l2_alone_gives_the_gradient_of_the_weights_size():
    flat = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (expected,) = torch.autograd.grad(0.5 / 2 * flat.square().sum(), flat)
    grad = torch.zeros(3)
    Regularizer(RegularizeConfig(l2=0.5), flat.detach()).add_gradients(grad, flat.detach())
    assert torch.equal(grad, expected)


def test_without_regularisers_nothing_is_touched():
    flat, grad = torch.tensor([5.0]), torch.tensor([1.0])
    idle = Regularizer(RegularizeConfig(), flat)
    idle.add_gradients(grad, flat)
    idle.bound(flat)
    assert (float(flat), float(grad)) == (5.0, 1.0)
    assert idle.capture() == {}


@pytest.mark.parametrize(
    "policy",
    [{"graph": "mlp"}, {"module": "palaestra.policies.library.mlp:MlpPolicy"}],
    ids=["graph", "plain"],
)
@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_after_every_step_every_weight_of_every_policy_lies_within_the_clip_range(policy, kind):
    config = TrainConfig(
        total_steps=128,
        policy=policy,
        ppo={
            "env_count": 2,
            "horizon": 32,
            "minibatch_size": 32,
            "learning_rate": 0.05,
            "optimizer": kind,
            "regularize": {"clip_range": 0.07},
        },
    )
    state = new_training_state(config)
    assert (
        max(float(p.detach().abs().max()) for p in state.algorithm.policy().parameters()) > 0.07
    )  # something to bound
    for _ in train(state):
        largest = max(float(parameter.detach().abs().max()) for parameter in state.algorithm.policy().parameters())
        assert largest <= 0.07 * (1 + 1e-6)


def test_the_initial_weights_are_part_of_the_state_so_that_a_restored_run_pulls_to_the_same_place():
    config = TrainConfig(
        total_steps=512,
        ppo={"env_count": 2, "horizon": 32, "minibatch_size": 32, "regularize": {"l2_init": 0.1}},
    )
    state = new_training_state(config)
    reports = train(state)
    for _ in range(3):
        next(reports)
    weights, saved = copy.deepcopy(state.algorithm.policy().state_dict()), state.capture()
    other = new_training_state(config.model_copy(update={"seed": 77}))  # its own initial weights are others
    other.algorithm.policy().load_state_dict(weights)
    other.restore(saved)
    list(reports)
    list(train(other))
    assert torch.equal(other.algorithm.tensors.optimizer.flat, state.algorithm.tensors.optimizer.flat)

    forgetful = new_training_state(config.model_copy(update={"seed": 77}))
    own = forgetful.capture()["optimizer"]["initial"]
    forgetful.algorithm.policy().load_state_dict(weights)
    forgetful.restore({**saved, "optimizer": {**saved["optimizer"], "initial": own}})
    list(train(forgetful))
    assert not torch.equal(forgetful.algorithm.tensors.optimizer.flat, state.algorithm.tensors.optimizer.flat)
