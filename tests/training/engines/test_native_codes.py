"""Codes, sums and vectors side by side in the native engine against the torch engine; distances as elsewhere here.

Arena's own network is one of them, in Arena itself.
"""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest
import torch

import palaestra.apps.arena  # noqa: F401  registers it, as the entry point does
from palaestra.config.recipes.registry import find_recipe
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.testing.two_engines import distance, facts, learn_by_both, learn_by_torch, play, run_on, weights
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")


class Shelves(gymnasium.Env):
    """What stands in 300 places, and some amounts; buttons are pressed."""

    observation_space = gymnasium.spaces.Dict(
        {
            "cells": gymnasium.spaces.Box(0, 6, (20, 15), np.uint8),
            "self": gymnasium.spaces.Box(0, 255, (5,), np.uint8),
        }
    )
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        seen = self._seen()
        return seen, float(seen["self"][action]) / 255 - 0.5, bool(self.np_random.random() < 0.05), False, {}

    def _seen(self):
        cells = self.np_random.integers(0, 7, (20, 15), np.uint8) * self.np_random.integers(0, 2, (20, 15), np.uint8)
        return {"cells": cells, "self": self.np_random.integers(0, 256, 5, np.uint8)}


gymnasium.register("engines/Shelves-v0", Shelves, max_episode_steps=13)

ODD = """
schema_version: 1
summary: nothing has the size of a register, and no table is alone with its slot
nodes:
  cells:  {type: codes, source: observation.cells, size: 21}
  counts: {type: codes, source: observation.self, size: 21, most: 9}
  bytes:  {type: vector, source: observation.self}
  amount: {type: linear, source: bytes, size: 21}
  sum:    {type: merge, source: [amount, cells, counts], how: add}
  seen:   {type: activation, source: sum, function: gelu}
  hidden: {type: linear, source: seen, size: 13, activation: tanh}
  both:   {type: merge, source: [bytes, hidden, seen], how: concat}
  memory: {type: lstm, source: both, size: 11}
  last:   {type: merge, source: [hidden, memory, bytes], how: concat}
  action: {type: action_head, source: last, gain: 1.0}
  value:  {type: value_head, source: last}
"""
ALONE = """
schema_version: 1
summary: tables that end their own slots, and no number anywhere
nodes:
  cells:  {type: codes, source: observation.cells, size: 40}
  seen:   {type: activation, source: cells, function: tanh}
  counts: {type: codes, source: observation.self, size: 16, most: 200}
  both:   {type: merge, source: [seen, counts], how: concat}
  actor:  {type: mlp, source: both, hidden: [17], activation: relu}
  action: {type: action_head, source: actor, gain: 1.0}
  value:  {type: value_head, source: both}
"""
SMALL_GRID = {"graph": "grid", "settings": {"size": 24}}
POLICIES = {"grid": SMALL_GRID, "odd": {"graph": ODD}, "alone": {"graph": ALONE}}
ARENA = {
    "id": "palaestra/Arena-v0",
    "kwargs": {"observation": "bytes", "view": 5, "agents": 6, "width": 9, "height": 9, "walls": 2, "max_steps": 20},
}
ENVS = {"shelves": "engines/Shelves-v0", "arena": ARENA}
PPO = {"env_count": 6, "horizon": 32, "minibatch_size": 96, "segment_length": 16, "update_epochs": 1}


def config(engine="native", *, ppo=None, policy=SMALL_GRID, env=ARENA, **other):
    has_memory = policy["graph"] != ALONE
    learning = {**PPO, **(ppo or {})}
    if not has_memory:
        learning.pop("segment_length")
    return TrainConfig(engine=engine, total_steps=1_000_000, ppo=learning, policy=policy, env=env, **other)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_one_gradient_is_that_of_torch(env, policy):
    whole = {"minibatch_size": 192, "max_grad_norm": 1e9}
    gradient, _, ours, theirs, _ = learn_by_both(config(env=env, policy=policy, ppo=whole))
    assert gradient < 1e-6
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_ten_steps_move_the_weights_as_torch_does_also_where_clips_bind(env, policy):
    """See test_native_engine.py for the bounds."""
    fast = {"update_epochs": 5, "learning_rate": 3e-3, "clip": 0.02}
    _, movement, ours, theirs, _ = learn_by_both(config(env=env, policy=policy, ppo=fast))
    assert movement < 5e-5
    assert 0.02 < ours.clipfrac < 0.95
    assert ours.minibatches == theirs.minibatches == 10
    for name in ("policy_loss", "value_loss", "entropy", "clipfrac", "approx_kl", "old_approx_kl"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-4, abs=1e-6), name


def test_ten_updates_of_one_step_each_end_in_the_weights_of_torch():
    gradient, movement, *_ = learn_by_both(config(ppo={"minibatch_size": 192}), updates=10)
    assert gradient < 5e-6
    assert movement < 5e-5


def test_a_gradient_of_many_slices_is_that_of_torch():
    large = {"env_count": 48, "segment_length": 32, "minibatch_size": 1536, "max_grad_norm": 1e9}
    gradient, *_ = learn_by_both(config(ppo=large))
    assert gradient < 1e-6


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_before_any_step_every_ratio_is_exactly_one(env, policy):
    for report in run_on(new_training_state(config(env=env, policy=policy, ppo={"learning_rate": 0.0})), 3):
        assert report.update.approx_kl == 0.0
        assert report.update.old_approx_kl == 0.0


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_number_of_threads_changes_no_bit(policy):
    large = {"env_count": 432, "minibatch_size": 3456}  # so many that acting is shared as well
    runs = [new_training_state(config(ppo=large, policy=policy, torch_threads=threads)) for threads in (1, 2, 3)]
    told = [facts(run_on(state, 2)) for state in runs]
    assert told[0] == told[1] == told[2]
    assert weights(runs[0]) == weights(runs[1]) == weights(runs[2])


def test_a_row_gives_the_same_bits_alone_and_among_others():
    """The first world's agents see and do the same, whoever is there besides; of those only rows are left to differ."""
    few, many = (new_training_state(config(ppo={"env_count": count})) for count in (6, 72))
    for name, block in few.algorithm.buffer.blocks.items():
        many.algorithm.buffer.blocks[name][0, :6] = block[0]
    for state in (few, many):
        state.algorithm.compute._learner.begin_rollout(state.algorithm.action_seed, 0)
        state.algorithm.compute._learner.act(0)
    assert np.array_equal(few.algorithm.compute.arrays["values"][0], many.algorithm.compute.arrays["values"][0, :6])


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_restored_state_goes_on_bit_for_bit(policy):
    state = new_training_state(config(policy=policy))
    run_on(state, 3)
    model, trainer = copy.deepcopy(state.algorithm.policy().state_dict()), copy.deepcopy(state.capture())
    expected = facts(run_on(state, 3))
    other = new_training_state(config(policy=policy, seed=99))  # nothing may come from its own start
    run_on(other, 1)
    other.algorithm.policy().load_state_dict(model)
    other.restore(trainer)
    assert facts(run_on(other, 3)) == expected
    assert weights(other) == weights(state)


@pytest.mark.parametrize(("first", "then"), [("native", "torch"), ("torch", "native")])
def test_a_run_can_be_continued_by_the_other_engine(first, then):
    state, other = (new_training_state(config(name)) for name in (first, then))
    run_on(state, 2)
    other.algorithm.policy().load_state_dict(state.algorithm.policy().state_dict())
    other.restore(state.capture())
    run_on(other, 2)
    assert other.iteration == 4
    assert weights(other) != weights(state)


@pytest.mark.parametrize("kernels", native_engine.native_learner.kernel_names() if native_engine.native_learner else [])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_set_of_kernels_that_runs_here_learns_as_torch_does(kernels, policy):
    settings = config(policy=policy, ppo={"minibatch_size": 192, "max_grad_norm": 1e9})
    native, by_torch = new_training_state(settings), new_training_state(settings)
    native.algorithm.compute = NativeEngine(native.algorithm, kernels)
    assert kernels in native.algorithm.description
    rollout = play(native)
    by_torch.algorithm.shuffler = copy.deepcopy(native.algorithm.shuffler)
    native.algorithm.compute._update(native.algorithm, native.progress)
    advantages = torch.from_numpy(native.algorithm.compute.arrays["advantages"].copy())
    learn_by_torch(by_torch.algorithm, rollout, advantages)
    assert distance(native.algorithm.tensors.optimizer.grad, by_torch.algorithm.tensors.optimizer.grad) < 1e-6


def test_a_truncated_episode_bootstraps_from_its_final_codes():
    """Steps of a world that all of its agents leave at once: by torch, from what the environment gave at the end."""
    state = new_training_state(config(env="engines/Shelves-v0", policy=POLICIES["alone"]))
    envs = copy.deepcopy(new_training_state(state.config).envs.envs)
    rollout = play(state)
    met = 0
    for index, env in enumerate(envs):
        for step in range(32):
            seen, _, terminated, truncated, _ = env.step(int(rollout.actions[step, index]))
            if truncated and not terminated:
                parts = {name: torch.from_numpy(part)[None, None] for name, part in seen.items()}
                with torch.no_grad():
                    value = float(state.algorithm.policy()(parts, {}).value)
                assert float(rollout.next_values[step, index]) == pytest.approx(value, rel=1e-5, abs=1e-6)
                met += 1
            if truncated or terminated:
                env.reset()
    assert met > 3


def test_a_code_outside_its_space_is_an_error():
    state = new_training_state(config())
    state.algorithm.buffer.rows[0]["cells"][2, 1, 1] = 255
    with pytest.raises(RunFailed, match="'palaestra/Arena-v0' left its own observation space: code 255 has no entry"):
        next(train(state))


def test_codes_that_do_not_fit_are_an_error():
    state = new_training_state(config())
    compiled = state.algorithm.compute._learner
    cells, own = state.algorithm.buffer.blocks["cells"], state.algorithm.buffer.blocks["self"]
    vector = own[0, :1].copy()
    with pytest.raises(ValueError, match="2 tables need as many arrays of codes, not 1"):
        compiled.evaluate_values(vector, [0], [0], [cells[0, :1].copy()])
    with pytest.raises(ValueError, match="codes has 50 entries, not 25"):
        compiled.evaluate_values(vector, [0], [0], [cells[0, :2].copy(), vector])
    with pytest.raises(IndexError, match="code 200 has no entry in a table of 21"):
        compiled.evaluate_values(vector, [0], [0], [np.full((1, 5, 5), 200, np.uint8), vector])


def test_a_non_finite_gradient_changes_no_weight():
    state = new_training_state(config())
    run_on(state, 1)
    play(state)
    state.algorithm.buffer.rewards[3, 1] = np.inf
    before = weights(state)
    with pytest.raises(NonFinite, match="The gradient's norm is"):
        state.algorithm.compute._update(state.algorithm, state.progress)
    assert weights(state) == before


@pytest.mark.parametrize("name", ["tiny", "navigation", "basic", "basic_easy_shaped", "combat", "curriculum"])
def test_every_recipe_of_arena_uses_the_native_engine(name):
    state = new_training_state(find_recipe(f"arena.{name}").config)
    assert state.algorithm.description.startswith("native, ")
