"""The native engine against the torch engine, held to PPO written out (tests/algorithms/ppo/test_update.py).

Fair for single precision: two correct sums of n numbers differ by about 1e-7 of their size, so gradients and movements
are compared as vectors, |a - b| / |b|, not number by number.
"""

from __future__ import annotations

import copy
import datetime as dt
import math
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.algorithms.advantages import estimate_advantages
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.testing.two_engines import distance, facts, learn_by_both, play, run_on, weights
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")

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
LOOSE = {"graph": "mlp", "settings": {"log_std": -0.5}}
PPO = {"env_count": 4, "horizon": 32, "minibatch_size": 32}


def config(engine="native", *, ppo=None, policy=None, env="CartPole-v1", **other):
    return TrainConfig(
        engine=engine, total_steps=1_000_000, ppo={**PPO, **(ppo or {})}, policy=policy or "mlp", env=env, **other
    )


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
    gradient, _, ours, theirs, _ = learn_by_both(config(env=env, policy=policy, ppo=whole))
    assert gradient < 1e-6
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_ten_steps_move_the_weights_as_torch_does_also_where_clips_bind(env, policy):
    """Few samples on purpose: one that lies within rounding of a clip may fall on either side of it.

    Adam divides by the size of a slope, so the rounding of the smallest counts as much as that of the largest; 1e-5 was
    seen. One sample on the wrong side of a clip moves the weights by 1e-3.
    """
    fast = {"minibatch_size": 64, "update_epochs": 5, "learning_rate": 3e-3, "clip": 0.02}
    _, movement, ours, theirs, _ = learn_by_both(config(env=env, policy=policy, ppo=fast))
    assert movement < 5e-5
    assert 0.02 < ours.clipfrac < 0.9
    assert ours.minibatches == theirs.minibatches == 10
    for name in ("policy_loss", "value_loss", "entropy", "clipfrac", "approx_kl", "old_approx_kl"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-4, abs=1e-6), name
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-5)
    assert ours.explained_variance == pytest.approx(theirs.explained_variance, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0"])
def test_native_environments_train_like_gymnasiums(env):
    """The same dice act in both; one different bit of an observation would show in the weights."""
    inside, outside = new_training_state(config(env=env)), new_training_state(config(env=env))
    assert "inside" in inside.algorithm.description
    outside.algorithm.compute._native_envs = None
    assert facts(run_on(inside, 12)) == facts(run_on(outside, 12))
    assert weights(inside) == weights(outside)


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    runs = [new_training_state(config(seed=seed)) for seed in (3, 3, 4)]
    assert facts(run_on(runs[0], 3)) == facts(run_on(runs[1], 3))
    run_on(runs[2], 3)
    assert weights(runs[0]) == weights(runs[1]) != weights(runs[2])


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize(
    "ppo",
    [
        {"env_count": 24, "horizon": 64, "minibatch_size": 1536},  # of several slices
        {"env_count": 4, "horizon": 128, "minibatch_size": 128},  # of one: action and value are learned side by side
        {"env_count": 40, "horizon": 8, "minibatch_size": 40},  # played by several threads
    ],
)
def test_the_number_of_threads_changes_no_bit(env, ppo):
    runs = [new_training_state(config(env=env, ppo=ppo, torch_threads=threads)) for threads in (1, 2, 3)]
    told = [facts(run_on(state, 2)) for state in runs]
    assert told[0] == told[1] == told[2]
    assert weights(runs[0]) == weights(runs[1]) == weights(runs[2])


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"])
def test_a_restored_state_goes_on_bit_for_bit(env):
    policy = {"graph": "mlp", "normalize_observations": True, "normalize_returns": True}
    state = new_training_state(config(env=env, policy=policy))
    run_on(state, 3)
    model, trainer = copy.deepcopy(state.algorithm.policy().state_dict()), copy.deepcopy(state.capture())
    expected = facts(run_on(state, 4))
    other = new_training_state(config(env=env, policy=policy, seed=99))  # nothing may come from its own start
    run_on(other, 1)  # its worlds stand elsewhere when it is restored
    other.algorithm.policy().load_state_dict(model)
    other.restore(trainer)
    assert facts(run_on(other, 4)) == expected
    assert weights(other) == weights(state)


def test_a_capture_does_not_disturb():
    one, other = new_training_state(config()), new_training_state(config())
    for _ in range(4):
        run_on(one, 1)
        one.capture()
    run_on(other, 4)
    assert weights(one) == weights(other)


@pytest.mark.parametrize(("first", "then"), [("native", "torch"), ("torch", "native")])
def test_a_run_can_be_continued_by_the_other_engine(first, then):
    state = new_training_state(config(first))
    run_on(state, 3)
    other = new_training_state(config(then))
    other.algorithm.policy().load_state_dict(state.algorithm.policy().state_dict())
    other.restore(state.capture())
    standing = [state.envs.episode_progress(index) for index in range(4)]
    assert [other.envs.episode_progress(index) for index in range(4)] == standing
    assert np.array_equal(other.algorithm.buffer.rows[0], state.algorithm.buffer.rows[0])
    assert weights(other) == weights(state)
    assert float(other.algorithm.tensors.optimizer.adam_memory()["step_count"]) == 48
    run_on(other, 2)
    assert other.iteration == 5
    assert weights(other) != weights(state)


def test_before_any_step_every_ratio_is_exactly_one():
    for env in ("CartPole-v1", "Pendulum-v1"):
        still = {"learning_rate": 0.0, "update_epochs": 1, "minibatch_size": 128}
        state = new_training_state(config(env=env, ppo=still, policy={"graph": "mlp", "normalize_observations": True}))
        for report in run_on(state, 2):
            assert report.update.approx_kl == 0.0
            assert report.update.old_approx_kl == 0.0
            assert report.update.clipfrac == 0.0


def test_a_non_finite_gradient_changes_no_weight():
    state = new_training_state(config())
    run_on(state, 1)
    play(state)
    state.algorithm.buffer.rewards[3, 1] = math.inf
    before, memory = weights(state), state.algorithm.tensors.optimizer.capture()
    with pytest.raises(NonFinite, match="The gradient's norm is"):
        state.algorithm.compute._update(state.algorithm, state.progress)
    assert weights(state) == before
    assert all(torch.equal(part, memory[name]) for name, part in state.algorithm.tensors.optimizer.capture().items())


def test_a_non_finite_observation_names_its_environment():
    state = new_training_state(config(env="MountainCarContinuous-v0"))
    state.algorithm.buffer.rows[0][2] = math.nan
    with pytest.raises(NonFinite, match="Update 1 was stopped before its step: .* observation .*environment 2"):
        next(train(state))


def test_target_kl_stops_the_epochs_early():
    state = new_training_state(config(ppo={"learning_rate": 0.01, "target_kl": 1e-6}))
    assert run_on(state, 1)[0].update.minibatches == 4


@pytest.mark.parametrize("kernels", native_engine.native_learner.kernel_names() if native_engine.native_learner else [])
def test_every_set_of_kernels_that_runs_here_learns_the_same(kernels):
    whole = {"minibatch_size": 128, "update_epochs": 1}
    moved = []
    for name in ("", kernels):
        state = new_training_state(config(ppo=whole, policy=POLICIES["shared"]))
        state.algorithm.compute = NativeEngine(state.algorithm, name)
        assert name in state.algorithm.description
        play(state)
        state.algorithm.compute._update(state.algorithm, state.progress)
        moved.append(state.algorithm.tensors.optimizer.grad.clone())
    assert distance(*moved) < 1e-6


def test_advantages_are_those_of_the_torch_engine():
    state = new_training_state(config(ppo={"horizon": 64, "env_count": 8, "minibatch_size": 64}))
    run_on(state, 3)
    rollout = play(state)
    assert bool(rollout.ended.any())
    state.algorithm.compute._update(state.algorithm, state.progress)
    expected = estimate_advantages(rollout, 0.99, 0.95)
    ours = torch.from_numpy(state.algorithm.compute.arrays["advantages"])
    assert torch.allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_rewards_are_scaled_as_by_the_scaler_itself():
    policy = {"graph": "mlp", "normalize_returns": True}
    state, other = (new_training_state(config(env="CartPole-v1", policy=policy)) for _ in range(2))
    for _ in range(3):
        rewards = torch.randn(32, 4)
        ended = torch.rand(32, 4) < 0.1
        state.algorithm.buffer.rewards[:], state.algorithm.buffer.starts[1:] = rewards.numpy(), ended.numpy()
        state.algorithm.compute._scale(state.algorithm, state.algorithm.policy().return_scaler)
        expected, other.algorithm.tensors.reward_sums = other.algorithm.policy().return_scaler.scale(
            rewards, ended, other.algorithm.tensors.reward_sums, 0.99
        )
        assert torch.equal(torch.from_numpy(state.algorithm.buffer.rewards), expected)
        assert torch.equal(state.algorithm.tensors.reward_sums, other.algorithm.tensors.reward_sums)
    assert state.algorithm.policy().return_scaler.moments.count == 384


def test_a_truncated_episode_bootstraps_from_its_own_last_observation():
    state = new_training_state(config(env={"id": "CartPole-v1", "max_episode_steps": 5}))
    rollout = play(state)
    cut = rollout.ended.numpy() & ~state.algorithm.buffer.terminated
    assert cut.any()
    envs = [copy.deepcopy(env) for env in new_training_state(config(env=state.config.env)).envs.envs]
    for index, env in enumerate(envs):
        for step in range(32):
            seen, _, _, truncated, _ = env.step(int(rollout.actions[step, index]))
            if truncated:
                with torch.no_grad():
                    value = state.algorithm.policy()(torch.from_numpy(seen)[None, None], {}).value
                assert float(rollout.next_values[step, index]) == pytest.approx(float(value), rel=1e-5, abs=1e-6)
                env.reset()


def test_discrete_actions_are_sampled_with_their_probabilities():
    """Against the network's own probabilities, over 8,000 draws: within five standard deviations."""
    state = new_training_state(config(ppo={"env_count": 64, "horizon": 125, "minibatch_size": 64}))
    with torch.no_grad():
        for node in state.algorithm.policy().network.nodes["action"].parameters():
            node.copy_(torch.tensor([0.0, 1.3]) if node.ndim == 1 else node)
    rollout = play(state)
    expected = rollout.log_probs.exp()
    share = rollout.actions.double().mean()
    likely = torch.where(rollout.actions == 1, expected, 1 - expected).double().mean()
    assert abs(float(share - likely)) < 5 * math.sqrt(0.25 / 8000)
    assert float(likely) > 0.7


def test_continuous_actions_are_sampled_with_the_networks_mean_and_std():
    state = new_training_state(
        config(env="Pendulum-v1", ppo={"env_count": 64, "horizon": 125, "minibatch_size": 64}, policy=LOOSE)
    )
    rollout = play(state)
    with torch.no_grad():
        mean = state.algorithm.policy()(rollout.observations, {}).distribution.mean
    noise = ((rollout.actions - mean) / math.exp(-0.5)).double().flatten()
    assert abs(float(noise.mean())) < 5 / math.sqrt(8000)
    assert float(noise.std()) == pytest.approx(1.0, abs=0.04)
    assert float((noise.abs() > 2).double().mean()) == pytest.approx(0.0455, abs=0.012)


class Buttons(gymnasium.Env):
    """Bytes are seen, several buttons are pressed at once."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, 3), np.uint8)
    action_space = gymnasium.spaces.MultiDiscrete([3, 2, 4])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self._seen(), float(action.sum()) - 2.0, bool(self.np_random.random() < 0.1), False, {}

    def _seen(self):
        return self.np_random.integers(0, 256, (2, 3), np.uint8)


class Rooms(Buttons):
    """A room is seen by its number, and the way of the wind."""

    observation_space = gymnasium.spaces.MultiDiscrete([5, 3], start=[2, 0])

    def _seen(self):
        return self.np_random.integers([2, 0], [7, 3])


for made in (Buttons, Rooms):
    gymnasium.register(f"engines/{made.__name__}-v0", made, max_episode_steps=20)


@pytest.mark.parametrize("env", ["engines/Buttons-v0", "engines/Rooms-v0", "palaestra/Crowd-v0", "Acrobot-v1"])
def test_other_observations_actions_and_environments_train_as_with_torch(env):
    fast = {"env_count": 6, "minibatch_size": 64, "update_epochs": 2, "learning_rate": 3e-3}
    gradient, movement, ours, theirs, _ = learn_by_both(config(env=env, ppo=fast, policy=POLICIES["shared"]))
    assert gradient < 5e-6
    assert movement < 5e-5
    assert ours.entropy == pytest.approx(theirs.entropy, rel=1e-5)
    assert ours.policy_loss == pytest.approx(theirs.policy_loss, rel=1e-4, abs=1e-6)


def test_multi_discrete_parts_are_sampled_independently_with_their_probabilities():
    state = new_training_state(config(env="engines/Buttons-v0", ppo={"env_count": 32, "horizon": 100}))
    rollout = play(state)
    with torch.no_grad():
        distribution = state.algorithm.policy()(rollout.observations, {}).distribution
    assert torch.allclose(distribution.log_prob(rollout.actions), rollout.log_probs, atol=1e-5)
    for part, count in enumerate((3, 2, 4)):
        shares = torch.bincount(rollout.actions[..., part].flatten(), minlength=count) / 3200
        likely = distribution.parts[part].log_probs.exp().mean(dim=(0, 1))
        assert float((shares - likely).abs().max()) < 5 * math.sqrt(0.25 / 3200)


@pytest.mark.parametrize("env_count", [1, 3, 4, 37])
def test_minibatches_advance_numpys_generator_as_numpy_does(env_count):
    sizes = {"env_count": env_count, "horizon": 32, "minibatch_size": 32 * env_count, "update_epochs": 3}
    state = new_training_state(config(ppo=sizes))
    expected = copy.deepcopy(state.algorithm.shuffler)
    for _ in range(3):
        expected.permutation(32 * env_count)
    state.algorithm.iterate(state.progress)
    assert state.algorithm.shuffler.bit_generator.state == expected.bit_generator.state


def test_arguments_that_do_not_fit_are_errors():
    state = new_training_state(config())
    compiled, update_config = state.algorithm.compute._learner, state.algorithm.compute._update_config
    with pytest.raises(ValueError, match="not a NumPy 'BitGenerator'"):
        compiled.update(dt.datetime_CAPI, update_config)
    for name in ("minibatch_size", "epochs"):
        usual = getattr(update_config, name)
        setattr(update_config, name, 0)
        with pytest.raises(ValueError, match="must be at least 1"):
            compiled.update(state.algorithm.shuffler.bit_generator.capsule, update_config)
        setattr(update_config, name, usual)
    for step in (-1, 32):
        with pytest.raises(IndexError, match="is not from 0 to 31"):
            compiled.act(step)
    with pytest.raises(IndexError, match="step 32 of environment 0 is outside the rollout"):
        compiled.evaluate_values(np.zeros((1, 4), np.float32), [32], [0])
    with pytest.raises(ValueError, match="final_observations has 3 entries, not 4"):
        compiled.evaluate_values(np.zeros(3, np.float32), [0], [0])
    with pytest.raises(ValueError, match="cannot run the kernels 'abacus'"):
        NativeEngine(state.algorithm, "abacus")


def test_an_observation_outside_its_space_is_an_error():
    state = new_training_state(config(env="engines/Rooms-v0"))
    state.algorithm.buffer.rows[0][1] = [7, 0]
    with pytest.raises(RunFailed, match="'engines/Rooms-v0' left its own observation space: .* space's categories"):
        next(train(state))


def test_unknown_dynamics_and_other_buffers_are_errors():
    envs = native_engine.native_learner.NativeEnvs
    with pytest.raises(ValueError, match="unknown dynamics 'chess'"):
        envs("chess", {}, 1, 1)
    with pytest.raises(ValueError, match="missing constant 'gravity'"):
        envs("cartpole", {}, 1, 1)
    state = new_training_state(config())
    with pytest.raises(IndexError):
        state.algorithm.compute._native_envs.native.get_state(4)
    with pytest.raises(ValueError, match="do not match the learner's rollout buffer"):
        state.algorithm.compute._native_envs.native.collect(
            new_training_state(config(env="Pendulum-v1")).algorithm.compute._learner
        )


class PlanWithout:
    """A network plan with one field removed."""

    def __init__(self, plan, field):
        self.__dict__.update({name: value for name, value in vars(plan).items() if name != field})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda plan: PlanWithout(plan, "layers"), TypeError, "PlanWithout has no field 'layers'"),
        (lambda plan: replace(plan, value_slot="one"), TypeError, "NetworkPlan.value_slot .* invalid type .*: 'one'"),
        (lambda plan: with_layer(plan, 1, activation=7), ValueError, "LayerPlan.activation is 7 .*from 0 to 3"),
        (lambda plan: with_layer(plan, 1, weight_offset=-2), TypeError, "LayerPlan.weight_offset .*out of range: -2"),
        (
            lambda plan: with_layer(plan, 2, weight_offset=10**6),
            ValueError,
            "layer 2: weight .* not within the 9155",
        ),
        (
            lambda plan: with_layer(plan, 0, inputs=5),
            ValueError,
            "layer 0 maps 5 inputs to 64 outputs, .* 4 and 64",
        ),
        (lambda plan: with_layer(plan, 3, target=9), ValueError, r"layer 3 has target slot 9 \(must be from 1 to 6\)"),
        (lambda plan: replace(plan, layers=plan.layers[1:]), ValueError, "slot 1 is read before it is written"),
        (lambda plan: replace(plan, value_slot=plan.action_slot), ValueError, "must be two different slots"),
        (lambda plan: replace(plan, slot_sizes=[0, *plan.slot_sizes[1:]]), ValueError, "its slots have sizes 0 and 64"),
    ],
)
def test_an_invalid_plan_is_an_error_that_names_the_field_or_the_layer(change, error, message, monkeypatch):
    state = new_training_state(config())
    plan, real = state.algorithm.network.plan, native_engine._network
    monkeypatch.setattr(native_engine, "_network", lambda ppo: (change(plan), real(ppo)[1]))
    with pytest.raises(error, match=message):
        NativeEngine(state.algorithm)


def with_layer(plan, number, **fields):
    layers = list(plan.layers)
    layers[number] = replace(layers[number], **fields)
    return replace(plan, layers=layers)
