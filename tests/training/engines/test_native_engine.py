"""The native engine against the torch engine, which others hold to PPO written out (tests/training/test_ppo.py).

Fair for single precision: two correct sums of n numbers differ by about 1e-7 of their size, so gradients and movements
are compared as vectors, |a - b| / |b|, not number by number.
"""

from __future__ import annotations

import copy

import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.train import TrainConfig
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.ppo import update
from palaestra.training.rollout import Rollout
from palaestra.training.state import new_training_state

pytestmark = pytest.mark.skipif(native_engine.learner is None, reason="no compiler has been here")

SHARED = """
schema_version: 1
summary: a trunk with two heads
nodes:
  input:  {type: vector, source: observation}
  trunk:  {type: mlp, source: input, hidden: [24, 17], activation: tanh}
  actor:  {type: linear, source: trunk, size: 9, activation: relu}
  action: {type: action_head, source: actor, gain: 1.0}
  critic: {type: linear, source: trunk, size: 11, activation: gelu}
  value:  {type: value_head, source: critic}
"""
PPO = {"env_count": 4, "horizon": 32, "minibatch_size": 32}


def config(engine="native", *, ppo=None, policy=None, env="CartPole-v1", **other):
    return TrainConfig(
        engine=engine, total_steps=1_000_000, ppo={**PPO, **(ppo or {})}, policy=policy or "mlp", env=env, **other
    )


def rollout_of(engine: NativeEngine, tape) -> Rollout:
    """What the native engine recorded, copied, as the torch engine would have it."""

    def field(name):
        return torch.from_numpy(engine.recording[name].copy())

    starts = torch.from_numpy(tape.starts.copy())
    return Rollout(
        observations=torch.from_numpy(tape.blocks[""][:-1].copy()),
        actions=field("actions"),
        log_probs=field("log_probs"),
        values=field("values"),
        next_values=field("next_values"),
        rewards=field("rewards"),
        ended=starts[1:],
        starts=starts[:-1],
        memory={},
    )


def distance(ours, theirs) -> float:
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


def play(state) -> Rollout:
    state.engine._play(state)
    return rollout_of(state.engine, state.tape)


def learn_with_torch(state, rollout, advantages):
    return update(
        state.agent, state.optimizer, rollout, advantages, state.config.ppo, 0.0, state.shuffler, group=state.group
    )


def both_learn(settings, updates: int):
    """Distances of gradient, of movement and of statistics after `updates` updates on the same rollouts."""
    native, by_torch = new_training_state(settings), new_training_state(settings)
    assert isinstance(native.engine, NativeEngine)
    begun = native.optimizer.flat.clone()
    for _ in range(updates):
        rollout = play(native)
        shuffler = copy.deepcopy(native.shuffler)
        ours = native.engine._learn(native)
        by_torch.shuffler = shuffler
        advantages = torch.from_numpy(native.engine.recording["advantages"].copy())
        theirs = learn_with_torch(by_torch, rollout, advantages)
        by_torch.agent.take_in(rollout.observations)
        native.iteration += 1
    movement = distance(native.optimizer.flat - begun, by_torch.optimizer.flat - begun)
    return distance(native.optimizer.grad, by_torch.optimizer.grad), movement, ours, theirs


POLICIES = {
    "tanh": "mlp",
    "relu": {"graph": "mlp", "settings": {"hidden": [48, 20, 13], "activation": "relu"}},
    "gelu": {"graph": "mlp", "settings": {"hidden": [33], "activation": "gelu"}},
    "shared": {"graph": SHARED},
    "class": {"module": "palaestra.policies.library.mlp:MlpPolicy"},
    "none": {"graph": "mlp", "settings": {"hidden": []}},
    "normalised": {"graph": "mlp", "normalize_observations": True, "normalize_returns": True},
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_one_gradient_is_that_of_torch(env, policy):
    whole = {"minibatch_size": 128, "update_epochs": 1, "max_grad_norm": 1e9}
    gradient, _, ours, theirs = both_learn(config(env=env, policy=policy, ppo=whole), 1)
    assert gradient < 1e-6
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_ten_steps_move_the_weights_as_torch_does_also_where_clips_bind(env, policy):
    """Few samples on purpose: one that lies within rounding of a clip may fall on either side of it."""
    fast = {"minibatch_size": 64, "update_epochs": 5, "learning_rate": 3e-3, "clip": 0.02}
    _, movement, ours, theirs = both_learn(config(env=env, policy=policy, ppo=fast), 1)
    assert movement < 5e-6
    assert 0.02 < ours.clipfrac < 0.9
    assert ours.minibatches == theirs.minibatches == 10
    for name in ("policy_loss", "value_loss", "entropy", "clipfrac", "approx_kl", "old_approx_kl"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-4, abs=1e-6), name
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-5)
    assert ours.explained_variance == pytest.approx(theirs.explained_variance, rel=1e-4, abs=1e-5)
