import numpy as np
import pytest

from palaestra.algorithms import serialization
from palaestra.config.train import TrainConfig
from palaestra.policies.agent import Agent
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_ppo import NativePpo
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")
PPO = {"env_count": 3, "horizon": 16, "minibatch_size": 16}


def native(**settings):
    state = new_training_state(TrainConfig(engine="native", **{"ppo": PPO, **settings}))
    assert isinstance(state.algorithm, NativePpo)
    return state


def test_the_tensors_are_built_once_and_are_views_of_the_engines_memory():
    ppo = native().algorithm
    assert ppo.tensors is ppo.tensors
    assert np.shares_memory(ppo.tensors.optimizer.flat.numpy(), ppo.network.numbers["values"])


def test_weights_are_arrays_until_torch_is_imported_and_the_policy_afterwards(monkeypatch):
    ppo = native().algorithm
    assert ppo.weights() is ppo.policy()
    assert isinstance(ppo.policy(), Agent)
    monkeypatch.setattr(serialization, "has_torch", lambda: False)
    arrays = ppo.weights()
    assert {name: part.tolist() for name, part in ppo.policy().state_dict().items()} == {
        name: part.tolist() for name, part in arrays.items()
    }


def test_gradient_norms_are_among_the_metrics_on_request():
    assert any(
        name.startswith("gradients/") for name in next(train(native(ppo={**PPO, "gradient_statistics": True}))).metrics
    )
    assert not any(name.startswith("gradients/") for name in next(train(native())).metrics)
