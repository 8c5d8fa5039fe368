"""Does it change learning? Every option that is off leaves the weights bit for bit what they are without it."""

import copy

import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

# One engine for all: not every option that is off fits both.
BASE = {"engine": "torch", "total_steps": 320, "ppo": {"env_count": 2, "horizon": 32, "minibatch_size": 32}}
OFF = {
    "vtrace": {"ppo": {"vtrace": {"enabled": False, "rho_clip": 0.3, "c_clip": 0.2}}},
    "prioritized": {"ppo": {"prioritized": {"enabled": False, "alpha": 2.0, "beta": 0.1}}},
    "kickstart": {"ppo": {"kickstart": {"teacher": None, "action_coefficient": 9.0}}},
    "adam": {"ppo": {"optimizer": {"kind": "adam", "weight_decay": 0.0, "momentum": 0.1}}},
    "regularize": {"ppo": {"regularize": {"clip_range": 1e9, "l2": 0.0, "l2_init": 0.0}}},
    "curriculum": {"curriculum": {"tasks": {}, "kind": "learning_progress", "floor": 1.0}},
    "device": {"device": "cpu"},
}
ON = {
    "vtrace": {"ppo": {"vtrace": {"enabled": True}}},
    "prioritized": {"ppo": {"prioritized": {"enabled": True}}},
    "muon": {"ppo": {"optimizer": "muon"}},
    "l2": {"ppo": {"regularize": {"l2": 0.01}}},
    "clip_range": {"ppo": {"regularize": {"clip_range": 0.3}}},
    "l2_init": {"ppo": {"regularize": {"l2_init": 0.1}}},
}


def config_with(changes: dict) -> TrainConfig:
    return TrainConfig.model_validate({**BASE, **changes, "ppo": {**BASE["ppo"], **changes.get("ppo", {})}})


def trained(config: TrainConfig) -> torch.Tensor:
    state = new_training_state(config)
    assert len(list(train(state))) == 5
    return torch.cat([parameter.detach().flatten() for parameter in state.algorithm.policy().parameters()])


@pytest.fixture(scope="module")
def without() -> torch.Tensor:
    return trained(TrainConfig.model_validate(BASE))


@pytest.mark.parametrize("option", OFF)
def test_five_updates_with_the_option_off_give_the_very_weights_of_five_without_it(option, without):
    assert torch.equal(trained(config_with(OFF[option])), without)


@pytest.mark.parametrize("option", ON)
def test_five_updates_with_the_option_on_give_others(option, without):
    """The comparison above could not see anything if it did not see this."""
    assert not torch.equal(trained(config_with(ON[option])), without)


@pytest.mark.parametrize("option", ON)
def test_a_training_with_the_option_on_resumes_bit_for_bit(option):
    config = config_with(ON[option])
    state = new_training_state(config)
    reports = train(state)
    for _ in range(2):
        next(reports)
    model, saved = copy.deepcopy(state.algorithm.policy().state_dict()), copy.deepcopy(state.capture())
    list(reports)
    other = new_training_state(config.model_copy(update={"seed": 9}))
    other.algorithm.policy().load_state_dict(model)
    other.restore(saved)
    list(train(other))
    assert torch.equal(other.algorithm.tensors.optimizer.flat, state.algorithm.tensors.optimizer.flat)
