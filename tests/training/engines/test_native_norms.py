"""PPO's native engine with layer normalisation and residual blocks, beside torch."""

from __future__ import annotations

import copy

import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.testing.two_engines import (
    distance,
    facts,
    learn_by_both,
    learn_by_torch,
    native_ppo,
    play,
    run_on,
    weights,
)
from palaestra.training.engines import native_engine
from palaestra.training.state import new_training_state

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")

GRAPH = """
schema_version: 1
summary: layer normalisation and residual blocks
nodes:
  input:  {type: vector, source: observation}
  first:  {type: linear, source: input, size: 19}
  norm:   {type: norm, source: first}
  active: {type: activation, source: norm, function: ACTIVATION}
  blocks: {type: residual, source: active, blocks: 2, expansion: 1.5, activation: ACTIVATION}
  sum:    {type: merge, source: [blocks, active], how: add}
  action: {type: action_head, source: sum, gain: 1.0}
  value:  {type: value_head, source: blocks}
"""
MEMORY = """
schema_version: 1
summary: a norm before and behind a recurrent cell
nodes:
  input:  {type: vector, source: observation}
  even:   {type: norm, source: input}
  memory: {type: KIND, source: even, size: 6}
  norm:   {type: norm, source: memory}
  action: {type: action_head, source: norm, gain: 1.0}
  value:  {type: value_head, source: memory}
"""
PPO = {"env_count": 4, "horizon": 32, "minibatch_size": 32}
ACTIVATIONS = ("tanh", "relu", "gelu")


def mlp(**settings):
    return {"graph": "mlp", "settings": {"hidden": [21, 21, 21], **settings}}


POLICIES = {
    **{f"layer_norm {name}": mlp(layer_norm=True, activation=name) for name in ACTIVATIONS},
    **{f"residual {name}": mlp(residual=True, activation=name) for name in ACTIVATIONS},
    **{f"both {name}": mlp(layer_norm=True, residual=True, activation=name) for name in ACTIVATIONS},
    **{f"graph {name}": {"graph": GRAPH.replace("ACTIVATION", name)} for name in ACTIVATIONS},
}


def config(policy, env="CartPole-v1", ppo=None, **other):
    settings = {**PPO, **(ppo or {})}
    return TrainConfig(engine="native", total_steps=10**6, env=env, policy=policy, ppo=settings, **other)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_one_gradient_is_that_of_torch(env, policy):
    whole = {"minibatch_size": 128, "update_epochs": 1, "max_grad_norm": 1e9}
    gradient, _, ours, theirs, _ = learn_by_both(config(policy, env, whole))
    assert gradient < 1e-6
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_ten_steps_end_in_the_weights_of_torch_to_a_millionth(env, policy):
    settings = config(policy, env, {"minibatch_size": 64, "update_epochs": 5})
    state = new_training_state(settings)
    native, by_torch = native_ppo(state), native_ppo(new_training_state(settings))
    rollout, by_torch.shuffler = play(state), copy.deepcopy(native.shuffler)
    ours = native.compute._update(native, state.progress)
    learn_by_torch(by_torch, rollout, torch.from_numpy(native.compute.arrays["advantages"].copy()))
    assert ours.minibatches == 10
    assert distance(native.tensors.optimizer.flat, by_torch.tensors.optimizer.flat) < 1e-6


@pytest.mark.parametrize("kind", ["mingru", "lstm", "gru"])
def test_a_norm_may_stand_before_and_behind_a_recurrent_cell(kind):
    settings = config({"graph": MEMORY.replace("KIND", kind)}, ppo={"segment_length": 8})
    gradient, movement, *_ = learn_by_both(settings)
    assert gradient < 2e-6
    assert movement < 5e-5


def test_two_threads_learn_the_bits_of_one():
    runs = [new_training_state(config(POLICIES["both tanh"], torch_threads=threads)) for threads in (1, 2)]
    assert facts(run_on(runs[0], 3)) == facts(run_on(runs[1], 3))
    assert weights(runs[0]) == weights(runs[1])


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_both_engines_start_with_the_same_weights(engine):
    settings = config(POLICIES["both tanh"])
    states = [new_training_state(settings.model_copy(update={"engine": name})) for name in (engine, "native")]
    first, second = (state.algorithm.tensors.optimizer.flat for state in states)
    assert distance(first, second) == 0
