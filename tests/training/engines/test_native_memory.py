"""Memory in the native engine against the torch engine; distances as in test_native_engine.py."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest
import torch

import palaestra.testing.envs  # noqa: F401  registers them, as the entry point does
from palaestra.config.train import TrainConfig
from palaestra.testing.two_engines import Comparison, distance, facts, learn_by_both, play, run_on, weights
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.state import new_training_state

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")

ONE = """
schema_version: 1
summary: one memory for both heads
nodes:
  input:  {{type: vector, source: observation}}
  first:  {{type: mlp, source: input, hidden: [17], activation: tanh}}
  memory: {{type: {kind}, source: first, size: {size}}}
  action: {{type: action_head, source: memory, gain: 1.0}}
  value:  {{type: value_head, source: memory}}
"""
SEVERAL = """
schema_version: 1
summary: memories behind one another, beside one another, and a way around them
nodes:
  input:  {type: vector, source: observation}
  early:  {type: mingru, source: input, size: 10, remember: 300}
  trunk:  {type: linear, source: early, size: 19, activation: gelu}
  actor:  {type: lstm, source: trunk, size: 11}
  critic: {type: gru, source: trunk, size: 21}
  last:   {type: linear, source: critic, size: 8, activation: relu}
  action: {type: action_head, source: actor, gain: 1.0}
  value:  {type: value_head, source: last}
"""
POLICIES = {
    "mingru": {"graph": "memory"},
    "mingru odd": {"graph": ONE.format(kind="mingru", size=13)},
    "lstm": {"graph": ONE.format(kind="lstm", size=16)},
    "lstm odd": {"graph": ONE.format(kind="lstm", size=21)},
    "gru": {"graph": ONE.format(kind="gru", size=16)},
    "gru odd": {"graph": ONE.format(kind="gru", size=5)},
    "several": {"graph": SEVERAL, "normalize_observations": True, "normalize_returns": True},
}
PLAIN = {"normalize_observations": False}
CELLS = {name: POLICIES[name] for name in ("mingru", "lstm odd", "gru odd", "several")}
CUT_SHORT = {"id": "CartPole-v1", "max_episode_steps": 16}
ENVS = {"choices": CUT_SHORT, "numbers": {"id": "Pendulum-v1", "max_episode_steps": 13}}
PPO = {"env_count": 5, "horizon": 32, "minibatch_size": 80, "segment_length": 16}


def config(engine="native", *, ppo=None, policy="memory", env=CUT_SHORT, **other):
    return TrainConfig(
        engine=engine, total_steps=1_000_000, ppo={**PPO, **(ppo or {})}, policy=policy, env=env, **other
    )


def both_learn(settings) -> Comparison:
    learned = learn_by_both(settings)
    assert bool(learned.rollout.starts[1:].any()), "no episode ended, so nothing was forgotten"
    return learned


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_one_gradient_is_that_of_torch(env, policy):
    whole = {"minibatch_size": 160, "update_epochs": 1, "max_grad_norm": 1e9}
    gradient, _, ours, theirs, _ = both_learn(config(env=env, policy=policy, ppo=whole))
    assert gradient < 1e-6
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_ten_steps_move_the_weights_as_torch_does_also_where_clips_bind(env, policy):
    """See test_native_engine.py for the bounds."""
    fast = {"update_epochs": 5, "learning_rate": 3e-3, "clip": 0.02}
    _, movement, ours, theirs, _ = both_learn(config(env=env, policy=policy, ppo=fast))
    assert movement < 5e-5
    assert 0.02 < ours.clipfrac < 0.9
    assert ours.minibatches == theirs.minibatches == 10
    for name in ("policy_loss", "value_loss", "entropy", "clipfrac", "approx_kl", "old_approx_kl"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-4, abs=1e-6), name
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-5)


@pytest.mark.parametrize("segment", [1, 8, 32])
def test_segments_of_any_length_train_as_with_torch(segment):
    settings = config(policy=POLICIES["several"], ppo={"segment_length": segment, "minibatch_size": 32})
    gradient, movement, *_ = both_learn(settings)
    assert gradient < 5e-6
    assert movement < 5e-5


def test_a_gradient_of_many_slices_is_that_of_torch():
    """40 columns of 32 steps: more than go through the network together."""
    large = {"env_count": 40, "segment_length": 32, "minibatch_size": 1280, "update_epochs": 1, "max_grad_norm": 1e9}
    gradient, *_ = both_learn(config(policy=POLICIES["lstm odd"], ppo=large))
    assert gradient < 1e-6


@pytest.mark.parametrize("policy", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_the_rollout_is_what_the_policy_does_step_by_step(policy, where):
    """Each environment alone, one step after the other: chances, values, and what truly followed."""
    state = new_training_state(config(policy={"graph": policy["graph"]}))
    if where == "outside":
        state.algorithm.compute._native_envs = None
    envs = copy.deepcopy(new_training_state(state.config).envs.envs)
    rollout = play(state)
    met = {"cut": 0, "fell": 0}
    for index, env in enumerate(envs):
        seen, memory = state.algorithm.buffer.blocks[""][0, index], state.algorithm.policy().initial_memory(1)
        for step in range(32):
            starts = rollout.starts[step : step + 1, index : index + 1]
            with torch.no_grad():
                distribution, value, memory = state.algorithm.policy()(
                    torch.from_numpy(seen)[None, None], memory, starts
                )
            action = rollout.actions[step, index]
            chance = float(distribution.log_prob(action[None, None]))
            assert float(rollout.log_probs[step, index]) == pytest.approx(chance, abs=2e-6)
            assert float(rollout.values[step, index]) == pytest.approx(float(value), abs=2e-6)
            seen, _, terminated, truncated, _ = env.step(int(action))
            if terminated or truncated:
                followed = 0.0
                if truncated and not terminated:
                    with torch.no_grad():
                        followed = float(state.algorithm.policy()(torch.from_numpy(seen)[None, None], memory).value)
                assert float(rollout.next_values[step, index]) == pytest.approx(followed, abs=2e-6)
                met["fell" if terminated else "cut"] += 1
                seen, _ = env.reset()
    assert met["cut"] >= 1
    assert met["fell"] >= 1


@pytest.mark.parametrize("policy", CELLS.values(), ids=CELLS)
def test_before_any_step_every_ratio_is_exactly_one(policy):
    still = {"learning_rate": 0.0, "update_epochs": 1}
    for env in ENVS.values():
        for report in run_on(new_training_state(config(env=env, policy=policy, ppo=still)), 3):
            assert report.update.approx_kl == 0.0
            assert report.update.old_approx_kl == 0.0


@pytest.mark.parametrize("policy", CELLS.values(), ids=CELLS)
def test_the_number_of_threads_changes_no_bit(policy):
    large = {"env_count": 40, "minibatch_size": 640}
    runs = [new_training_state(config(ppo=large, policy=policy, torch_threads=threads)) for threads in (1, 2, 3)]
    told = [facts(run_on(state, 2)) for state in runs]
    assert told[0] == told[1] == told[2]
    assert weights(runs[0]) == weights(runs[1]) == weights(runs[2])


@pytest.mark.parametrize("policy", CELLS.values(), ids=CELLS)
def test_native_environments_train_like_gymnasiums(policy):
    inside, outside = new_training_state(config(policy=policy)), new_training_state(config(policy=policy))
    assert "inside" in inside.algorithm.description
    outside.algorithm.compute._native_envs = None
    assert facts(run_on(inside, 4)) == facts(run_on(outside, 4))
    assert weights(inside) == weights(outside)


@pytest.mark.parametrize("policy", CELLS.values(), ids=CELLS)
def test_a_restored_state_goes_on_bit_for_bit(policy):
    long = {"id": "CartPole-v1"}  # episodes that are on their way when the state is captured
    state = new_training_state(config(policy=policy, env=long))
    run_on(state, 3)
    model, trainer = copy.deepcopy(state.algorithm.policy().state_dict()), copy.deepcopy(state.capture())
    assert all(bool(part.any()) for part in trainer["memory"].values())
    expected = facts(run_on(state, 3))
    other = new_training_state(config(policy=policy, env=long, seed=99))  # nothing may come from its own start
    run_on(other, 1)
    other.algorithm.policy().load_state_dict(model)
    other.restore(trainer)
    assert facts(run_on(other, 3)) == expected
    assert weights(other) == weights(state)


@pytest.mark.parametrize(("first", "then"), [("native", "torch"), ("torch", "native")])
def test_a_run_can_be_continued_by_the_other_engine_with_its_memory(first, then):
    state, other = (new_training_state(config(name, policy=POLICIES["several"])) for name in (first, then))
    run_on(state, 3)
    other.algorithm.policy().load_state_dict(state.algorithm.policy().state_dict())
    other.restore(state.capture())
    assert other.algorithm.tensors.memory.keys() == state.algorithm.tensors.memory.keys()
    assert all(
        torch.equal(other.algorithm.tensors.memory[name], part) for name, part in state.algorithm.tensors.memory.items()
    )
    run_on(other, 2)
    assert other.iteration == 5
    assert weights(other) != weights(state)


@pytest.mark.parametrize("kernels", native_engine.native_learner.kernel_names() if native_engine.native_learner else [])
@pytest.mark.parametrize("policy", CELLS.values(), ids=CELLS)
def test_every_set_of_kernels_that_runs_here_learns_the_same(kernels, policy):
    """On the same rollout: sampled actions may differ where rounding does."""
    state = new_training_state(config(policy=policy, ppo={"minibatch_size": 160, "update_epochs": 1}))
    grads = []
    for name in (native_engine.native_learner.kernel_names()[0], kernels):
        again = new_training_state(state.config)
        again.algorithm.compute = NativeEngine(again.algorithm, name)
        assert name in again.algorithm.description
        play(again)
        again.algorithm.compute._update(again.algorithm, again.progress)
        grads.append(again.algorithm.tensors.optimizer.grad.clone())
    assert distance(*grads) < 2e-6


class Bell(gymnasium.Env):
    """Steps in Python, sees numbered rooms, presses two buttons."""

    observation_space = gymnasium.spaces.MultiDiscrete([4, 3])
    action_space = gymnasium.spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.integers([4, 3]), {}

    def step(self, action):
        return (
            self.np_random.integers([4, 3]),
            float(action.sum()) - 1.0,
            bool(self.np_random.random() < 0.1),
            False,
            {},
        )


gymnasium.register("engines/Bell-v0", Bell, max_episode_steps=9)


def test_python_environments_with_other_spaces_train_as_with_torch():
    gradient, movement, ours, theirs, _ = both_learn(config(env="engines/Bell-v0", policy=POLICIES["several"] | PLAIN))
    assert gradient < 5e-6
    assert movement < 5e-5
    assert ours.entropy == pytest.approx(theirs.entropy, rel=1e-5)


def test_memory_that_does_not_fit_is_an_error():
    state = new_training_state(config(policy=POLICIES["several"]))
    compiled, update_config = state.algorithm.compute._learner, state.algorithm.compute._update_config
    parts = [part.numpy() for part in state.algorithm.tensors.memory.values()]
    compiled.load_memory(parts)
    with pytest.raises(ValueError, match="the recurrent state has 4 parts, not 3"):
        compiled.load_memory(parts[1:])
    with pytest.raises(ValueError, match="memory has 4 entries, not 50"):
        compiled.store_memory([parts[0][0, :4].copy(), *parts[1:]])
    with pytest.raises(ValueError, match="minibatch_size=15 is not a multiple of segment_length"):
        update_config.minibatch_size = 15
        compiled.update(state.algorithm.shuffler.bit_generator.capsule, update_config)
    with pytest.raises(ValueError, match="environment 0 was not truncated in step 3"):
        state.algorithm.compute._learner.evaluate_values(np.zeros((1, 4), np.float32), [3], [0])
