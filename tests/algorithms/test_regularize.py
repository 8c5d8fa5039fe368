import copy

import pytest
import torch
from torch import nn

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.regularize import Regularizer
from palaestra.config.optimizer import RegularizeConfig
from palaestra.config.train import TrainConfig
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train


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
    optimizer.regularizer.add_slopes(optimizer.grad, optimizer.flat)
    assert torch.allclose(optimizer.grad, expected)
    assert all(float(parameter.grad.norm()) > 0 for parameter in network.parameters())


def test_l2_alone_gives_the_gradient_of_the_weights_size():
    flat = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (expected,) = torch.autograd.grad(0.5 / 2 * flat.square().sum(), flat)
    grad = torch.zeros(3)
    Regularizer(RegularizeConfig(l2=0.5), flat.detach()).add_slopes(grad, flat.detach())
    assert torch.equal(grad, expected)


def test_without_regularisers_nothing_is_touched():
    flat, grad = torch.tensor([5.0]), torch.tensor([1.0])
    idle = Regularizer(RegularizeConfig(), flat)
    idle.add_slopes(grad, flat)
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
