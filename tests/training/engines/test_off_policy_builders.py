"""PQN, DQN, SAC and TD3 with the configured engine."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.group import ALONE
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.envs.build import make_vector_envs
from palaestra.training.engines import native_engine
from palaestra.training.engines.choose import with_engine_of
from palaestra.training.engines.off_policy_builders import build_off_policy
from palaestra.training.state import new_training_state
from tests.training.engines.off_policy import advance

needs_compiled = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")
ENVS = {"dqn": "CartPole-v1", "pqn": "CartPole-v1", "sac": "Pendulum-v1", "td3": "Pendulum-v1"}
ALL = pytest.mark.parametrize("algorithm", ENVS)
CONV = {
    "graph": """
schema_version: 1
summary: a linear network without layers that the engine knows
nodes:
  input:  {type: vector, source: observation}
  first:  {type: linear, source: input, size: 8, activation: silu}
  action: {type: action_head, source: first}
  value:  {type: value_head, source: first}
"""
}


def state_of(algorithm, **settings):
    small = {} if algorithm == "pqn" else {algorithm: {"buffer_size": 600}}
    words = {"algorithm": algorithm, "env": ENVS[algorithm], "total_steps": 2_000_000, **small, **settings}
    return new_training_state(TrainConfig.model_validate(words))


def weights_of(state):
    return np.concatenate([part.detach().numpy().ravel() for part in state.algorithm.policy().parameters()])


@needs_compiled
@ALL
def test_auto_takes_the_native_engine(algorithm):
    state = state_of(algorithm)
    assert state.algorithm.engine == "native"
    assert state.algorithm.description.startswith("native, ")


@needs_compiled
@ALL
def test_both_engines_start_with_the_same_weights(algorithm):
    native, torch = (state_of(algorithm, engine=engine) for engine in ("native", "torch"))
    assert (native.algorithm.engine, torch.algorithm.engine) == ("native", "torch")
    np.testing.assert_array_equal(weights_of(native), weights_of(torch))


@needs_compiled
@ALL
def test_a_run_that_torch_began_goes_on_with_torch_unless_an_engine_is_named(algorithm):
    free, named = state_of(algorithm).algorithm, state_of(algorithm, engine="native").algorithm
    continued = with_engine_of(free, "torch")
    assert continued.engine == "torch"
    assert continued.policy() is free.policy()
    assert with_engine_of(free, "native") is free
    assert with_engine_of(named, "torch") is named


@ALL
def test_without_a_compiler_torch_computes_and_says_why(algorithm, monkeypatch):
    monkeypatch.setattr(native_engine, "native_learner", None)
    assert state_of(algorithm).algorithm.description.startswith("torch; native cannot take it: it was not compiled")
    with pytest.raises(UsageError, match="engine=native cannot take it was not compiled"):
        state_of(algorithm, engine="native")


@needs_compiled
@pytest.mark.parametrize("algorithm", ["dqn", "sac", "td3"])
def test_what_the_engine_does_not_know_is_left_to_torch_by_name(algorithm):
    small = {"buffer_size": 600, "optimizer": {"kind": "muon"}}
    state = state_of(algorithm, **{algorithm: small})
    assert state.algorithm.description == f"torch; native cannot take it: {algorithm}.optimizer=muon"


@needs_compiled
@pytest.mark.parametrize("algorithm", ["dqn", "sac", "td3"])
def test_networks_that_only_torch_can_draw_are_planned_from_its_modules(algorithm):
    settings = {"hidden": [8, 8], "activation": "relu"}
    graph = {"graph": "mlp", "settings": {**settings, "action": {"gain": 0.5}}}  # which NumPy does not know
    small = {"buffer_size": 600, "steps_per_iteration": 20, "learning_starts": 5, "batch_size": 4}
    states = [state_of(algorithm, engine=engine, policy=graph, **{algorithm: small}) for engine in ("native", "torch")]
    for state in states:
        advance(state, 2)
    np.testing.assert_allclose(weights_of(states[0]), weights_of(states[1]), atol=1e-6)


def test_an_algorithm_that_has_no_builder_is_refused_with_the_list():
    config = TrainConfig.model_construct(**{**TrainConfig().__dict__, "algorithm": "a2c"})
    envs = make_vector_envs(TrainConfig().env, TrainConfig().curriculum, 1, None)
    with pytest.raises(UsageError, match="a2c") as error:
        build_off_policy(config, envs, [1], ALONE)
    assert "ppo, pqn, dqn, sac, td3" in str(error.value) + str(error.value.__dict__)
    envs.close()
