import copy
import math

import gymnasium
import numpy as np
import pytest

from palaestra.config.train import TrainConfig
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_envs import (
    ClassicControlEnvs,
    NativeStepper,
    exact_native_envs,
    unwrap_published,
)
from palaestra.training.engines.network_plan import Unsupported
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")
PPO = {"env_count": 3, "horizon": 40, "minibatch_size": 60}
numbers = np.linspace(-7, 7, 10_001)
EXACT = np.array_equal(np.sin(numbers), [math.sin(x) for x in numbers])
needs_exact = pytest.mark.skipif(not EXACT, reason="NumPy's sines here are not the C library's: no bits to compare")


def state_of(env="CartPole-v1", **other):
    return new_training_state(TrainConfig(engine="native", total_steps=10**6, env=env, ppo=PPO, **other))


def envs_of(*wrapped):
    made = iter(wrapped)
    return InProcessEnvs(lambda: next(made), len(wrapped))


@needs_exact
@pytest.mark.parametrize(
    "env",
    [
        "CartPole-v1",
        {"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": True}, "max_episode_steps": 13},
        {"id": "CartPole-v0"},
        "Pendulum-v1",
        {"id": "Pendulum-v1", "kwargs": {"g": 3.7}, "max_episode_steps": 9},
        "MountainCar-v0",
        {"id": "MountainCar-v0", "max_episode_steps": 17},
        "Acrobot-v1",
        {"id": "Acrobot-v1", "max_episode_steps": 30},
    ],
    ids=str,
)
def test_every_step_is_gymnasiums_to_the_last_bit_also_over_resets(env):
    """Gymnasium's own copies, with the same dice, take the same actions."""
    state = state_of(env)
    theirs = copy.deepcopy(state.envs.envs)
    sums = [0.0] * 3
    for iteration in range(6):
        state.algorithm.compute._learner.begin_rollout(state.algorithm.action_seed, iteration)
        episodes = state.algorithm.compute._collect_inside(state.algorithm)
        expected = []
        for step in range(40):
            for index, own in enumerate(theirs):
                action = state.algorithm.compute.arrays["actions"][step, index]
                seen, reward, terminated, truncated, _ = own.step(action if action.ndim else int(action))
                assert np.float32(reward) == state.algorithm.buffer.rewards[step, index]
                sums[index] += float(reward)
                assert bool(terminated) == state.algorithm.buffer.terminated[step, index]
                assert (terminated or truncated) == state.algorithm.buffer.starts[step + 1, index]
                if terminated or truncated:
                    expected.append((index, bool(terminated), sums[index]))
                    sums[index] = 0.0
                    seen, _ = own.reset()
                    if own.spec.id == "Acrobot-v1":  # its first sines are NumPy's of single precision
                        assert np.allclose(seen, state.algorithm.buffer.rows[step + 1][index], rtol=2.4e-7, atol=0)
                        continue
                assert np.array_equal(seen, state.algorithm.buffer.rows[step + 1][index])
        assert [(episode.env_index, episode.terminated, episode.total_reward) for episode in episodes] == expected
        state.algorithm.buffer.rewind()
    state.algorithm.export_env_state()
    for index, own in enumerate(theirs):
        ours = state.envs.envs[index]
        assert np.array_equal(ours.unwrapped.state, own.unwrapped.state)
        assert type(ours.unwrapped.state) is type(own.unwrapped.state)
        assert list(map(type, ours.unwrapped.state)) == list(map(type, own.unwrapped.state))
        assert ours.unwrapped.np_random.bit_generator.state == own.unwrapped.np_random.bit_generator.state
        assert state.envs.episode_progress(index) == (sums[index], own._elapsed_steps)


def test_exported_state_is_that_of_the_compiled_environments():
    state = state_of()
    list(zip(range(3), train(state), strict=False))
    state.algorithm.export_env_state()
    for index, env in enumerate(state.envs.envs):
        assert np.array_equal(np.float32(env.unwrapped.state), state.algorithm.buffer.rows[0][index])
        total_reward, length = state.envs.episode_progress(index)
        assert total_reward == length == env._elapsed_steps
    assert sum(state.envs.episode_progress(index)[1] for index in range(3)) > 0


def test_published_environments_are_unwrapped():
    envs = state_of().envs
    assert unwrap_published(envs) is envs
    published = PublishedEnvs(envs, None, None, 0, 3)
    assert unwrap_published(published) is envs


class Publisher:
    due = 0.0
    episodes = 0
    env_steps = 0

    def __init__(self, envs):
        self.seen = []
        self.envs = envs

    def check(self, source, bring_up_to_date):
        bring_up_to_date()
        self.seen.append((source.env_step, [env.unwrapped.state.copy() for env in self.envs.envs]))


class Scene:
    last = None


def test_viewers_see_the_current_state_after_every_iteration():
    state = state_of()
    inner = state.envs
    publisher = Publisher(inner)
    state.use_envs(PublishedEnvs(inner, Scene(), publisher, 1000, 3))
    episodes = 0
    for number, report in zip(range(1, 4), train(state), strict=False):
        episodes += len(report.episodes)
        env_step, standing = publisher.seen[-1]
        assert env_step == number * 40
        assert np.array_equal(np.float32(standing), state.algorithm.buffer.rows[0])
        assert publisher.env_steps == 1000 + number * 120
    assert publisher.episodes == episodes > 0


def refused(envs) -> str:
    with pytest.raises(Unsupported) as unfit:
        ClassicControlEnvs(envs, native_engine.native_learner)
    return str(unfit.value)


def test_anything_but_a_known_environment_is_named():
    limit = gymnasium.wrappers.TimeLimit
    plain = gymnasium.make("CartPole-v1").unwrapped
    assert "wrappers" in refused(envs_of(plain))
    assert "wrappers" in refused(envs_of(limit(gymnasium.wrappers.ClipReward(plain, -1, 1), 10)))
    continuous = gymnasium.make("MountainCarContinuous-v0").unwrapped
    assert "Continuous_MountainCarEnv" in refused(envs_of(limit(continuous, 10)))
    nips = gymnasium.make("Acrobot-v1").unwrapped
    nips.book_or_nips = "nips"
    assert "book_or_nips=nips" in refused(envs_of(limit(nips, 10)))
    drawn = gymnasium.make("CartPole-v1", render_mode="rgb_array").unwrapped
    assert "render_mode=rgb_array" in refused(envs_of(limit(drawn, 10)))
    semi = gymnasium.make("CartPole-v1").unwrapped
    semi.kinematics_integrator = "semi-implicit"
    assert "kinematics_integrator=semi-implicit" in refused(envs_of(limit(semi, 10)))
    assert "differ" in refused(envs_of(limit(plain, 10), limit(gymnasium.make("CartPole-v1").unwrapped, 11)))


class HeavierPole(type(gymnasium.make("CartPole-v1").unwrapped)):
    def step(self, action):
        return super().step(1 - action)


def test_a_subclass_of_a_known_environment_is_unsupported():
    assert "HeavierPole" in refused(envs_of(gymnasium.wrappers.TimeLimit(HeavierPole(), 10)))


@needs_exact
def test_changed_constants_are_used():
    state = state_of()
    for env in state.envs.envs:
        env.unwrapped.gravity = 1.0
    theirs = copy.deepcopy(state.envs.envs[1])
    state.algorithm.compute._native_envs = ClassicControlEnvs(state.envs, native_engine.native_learner)
    state.algorithm.compute._learner.begin_rollout(state.algorithm.action_seed, 0)
    state.algorithm.compute._collect_inside(state.algorithm)
    for step in range(5):
        seen, *_ = theirs.step(int(state.algorithm.compute.arrays["actions"][step, 1]))
        assert np.array_equal(seen, state.algorithm.buffer.rows[step + 1][1])


def test_a_curriculum_stays_with_python():
    tasks = {"usual": {}, "other": {"kwargs": {"sutton_barto_reward": True}}}
    assert "in Python" in state_of(curriculum={"tasks": tasks}).algorithm.description


def test_arrays_of_other_sizes_or_dtypes_are_an_error():
    state = state_of()  # keeps the environments alive
    step = state.algorithm.compute._native_envs.native.step
    seen, rewards = np.zeros((3, 4), np.float32), np.zeros(3, np.float32)
    for actions, out, paid in (
        (np.zeros(2, np.int64), seen, rewards),
        (np.zeros(3, np.int64), seen[:2], rewards),
        (np.zeros(3, np.int64), seen, rewards[:1]),
    ):
        with pytest.raises(ValueError, match="entries, not"):
            step(actions, out, paid)
    with pytest.raises((TypeError, RuntimeError)):
        step(np.zeros(3, np.float32), seen, rewards)
    pendulum = state_of("Pendulum-v1")
    swing = pendulum.algorithm.compute._native_envs.native.step
    with pytest.raises((TypeError, RuntimeError)):
        swing(np.zeros(3, np.int64), np.zeros((3, 3), np.float32), rewards)


@pytest.mark.parametrize("limit", [500, 6])
def test_compiled_steps_give_rewards_endings_and_final_observations(limit):
    """Gymnasium's own copy, with the same dice and actions."""
    state = state_of({"id": "CartPole-v1", "max_episode_steps": limit})
    theirs = copy.deepcopy(state.envs.envs)
    native = exact_native_envs(state.envs, native_engine.native_learner)
    native.import_state()
    inside = NativeStepper(native, state.envs)
    dice, out = np.random.default_rng(1), np.zeros((3, 4), np.float32)
    ends = 0
    for _ in range(60):
        actions = dice.integers(0, 2, 3)
        result = inside.step(actions, out)
        endings = {ending.env_index: ending for ending in result.endings}
        for index, own in enumerate(theirs):
            seen, reward, terminated, truncated, _ = own.step(int(actions[index]))
            assert result.rewards[index] == reward
            assert (index in endings) == (terminated or truncated)
            if index in endings:
                ends += 1
                assert np.allclose(endings[index].final_observation, seen, rtol=1e-6)
                assert endings[index].episode.terminated == terminated
                assert endings[index].episode.total_reward == endings[index].episode.length <= limit
                seen, _ = own.reset()
            assert np.allclose(out[index], seen, rtol=1e-5, atol=1e-7)
    assert ends > 3
