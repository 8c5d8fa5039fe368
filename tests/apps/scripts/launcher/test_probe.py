from __future__ import annotations

import signal
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import OrderEnforcing

from palaestra.apps.scripts.launcher import probe
from palaestra.apps.scripts.launcher.observer import Observer, Stopped
from palaestra.apps.scripts.launcher.probe import Probe, SingleEnv, first, observed, shortcut
from palaestra.rendering.offscreen import prepare_rendering


def test_returns_and_lengths_are_those_that_are_counted_by_hand():
    messages = []
    observer = Observer(lambda *message: messages.append(message), 0)
    env = probe.Probe(gymnasium.make("CartPole-v1"), observer, 4)
    env.reset(seed=3)
    total, length, ended = 0.0, 0, False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(0)
        total, length, ended = total + reward, length + 1, terminated or truncated
    assert messages[0] == ("env", 4)
    assert messages[1][:5] == ("episode", 4, total, length, True)
    assert observer.steps == env.steps == length
    env.reset()
    env.step(0)
    assert (env.steps, env.length) == (length + 1, 1), "an episode is forgotten, its steps are not"
    env.close()


class Small(gymnasium.Env):
    """Rewards in single precision, as many environments give them."""

    action_space = observation_space = gymnasium.spaces.Discrete(2)

    def reset(self, **options):
        return 0, {}

    def step(self, action):
        return 0, np.float32(action), False, False, {}


def test_small_rewards_are_not_lost_in_a_large_return():
    env = probe.Probe(Small(), Observer(lambda *_: None, 0), 0)
    env.reset()
    env.step(2**24)
    for _ in range(10):
        env.step(1)
    assert env.total == 2**24 + 10, "in single precision it would stand still"
    assert type(env.reward) is type(env.total) is float
    env.sum_rewards()
    assert (env.reward, env.total, env.length, env.steps) == (1.0, 2**24 + 10, 11, 11), "adding up changes nothing"


def test_a_reward_is_what_it_was_when_it_was_given_although_its_array_is_used_again():
    class Reused(Small):
        given = np.zeros(())

        def step(self, action):
            self.given[...] = action
            return 0, self.given, False, False, {}

    env = probe.Probe(Reused(), Observer(lambda *_: None, 1e9), 0)
    env.reset()
    for action in (1, 2, 4):
        env.step(action)
    assert env.total == 7


def test_environments_for_the_scripts_own_evaluation_do_not_count_as_training(monkeypatch):
    monkeypatch.setattr(gymnasium, "make", gymnasium.make)
    monkeypatch.setattr(gymnasium.envs.registration, "make", gymnasium.make)
    observer = Observer(lambda *_: None, 0)
    probe.install(observer, is_all=False)

    def make_env():
        return lambda: gymnasium.make("CartPole-v1")

    def evaluate():
        return gymnasium.vector.SyncVectorEnv([make_env()])

    evaluated, trained = evaluate(), gymnasium.vector.SyncVectorEnv([make_env()])
    assert not isinstance(evaluated.envs[0], probe.Probe)
    assert isinstance(trained.envs[0], probe.Probe)
    assert trained.envs[0].index == 0
    evaluated.close()
    trained.close()


def test_every_environment_that_is_made_gets_a_probe_and_a_number(monkeypatch):
    monkeypatch.setattr(gymnasium, "make", gymnasium.make)
    monkeypatch.setattr(gymnasium.envs.registration, "make", gymnasium.make)
    observer = Observer(lambda *_: None, 0)
    probe.install(observer)
    made = [gymnasium.make("CartPole-v1") for _ in range(2)]
    assert [env.index for env in made] == [0, 1]
    assert made[0].spec.id == "CartPole-v1"
    for env in made:
        env.close()


def after_some_steps(env, count=3):
    env.reset(seed=0)
    for _ in range(count):
        env.step(0)
    return env


def path(env):
    found = shortcut(env)
    return found.limit, found.env


def test_it_leads_past_the_checks_once_they_are_done_and_not_before():
    env = gymnasium.make("CartPole-v1")
    assert shortcut(env) is None, "nothing was reset"
    env.reset(seed=0)
    assert shortcut(env).env is not env.unwrapped, "the first steps are still to be looked at"
    after_some_steps(env)
    assert path(env) == (env, env.unwrapped)


def test_every_result_and_its_kind_is_that_of_the_long_way():
    plain = gymnasium.make("CartPole-v1", max_episode_steps=30)
    probed = Probe(gymnasium.make("CartPole-v1", max_episode_steps=30), Observer(lambda *_: None, 1e9), 0)
    actions = np.random.default_rng(0).integers(2, size=2000)
    assert (plain.reset(seed=5)[0] == probed.reset(seed=5)[0]).all()
    cut = 0
    for action in actions:
        expected, result = plain.step(action), probed.step(action)
        assert (expected[0] == result[0]).all()
        assert (expected[1:], [type(part) for part in expected]) == (result[1:], [type(part) for part in result])
        assert plain._elapsed_steps == probed.env._elapsed_steps
        cut += result[3]
        if result[2] or result[3]:
            assert (plain.reset()[0] == probed.reset()[0]).all()
    assert cut > 0, "some episodes end by the limit"
    assert probed._inner is probed.unwrapped, "it went the short way"


def test_a_step_that_the_script_has_put_in_place_of_gymnasium_s_is_not_passed_by(monkeypatch):
    env = after_some_steps(gymnasium.make("CartPole-v1"))
    checker = env.env.env
    env.env.step = lambda action: checker.step(1 - action)
    assert shortcut(env) is None
    del env.env.step
    assert path(env) == (env, env.unwrapped)
    monkeypatch.setattr(OrderEnforcing, "step", lambda self, action: self.env.step(1 - action))
    assert shortcut(env) is None


def test_it_holds_as_long_as_nobody_changes_what_it_passes():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    assert not shortcut(env).still_holds(), "checks are still to be done"
    found = shortcut(after_some_steps(env))
    assert found.still_holds()
    env.env.env.step = env.unwrapped.step
    assert not found.still_holds()
    del env.env.env.step
    assert found.still_holds()
    env.env.env = env.unwrapped
    assert not found.still_holds()


def test_what_the_script_changes_later_is_observed_with_the_next_look():
    observer = Observer(lambda *_: None, 1e9)
    env = Probe(gymnasium.make("CartPole-v1"), observer, 0)
    after_some_steps(env)
    env.reset(seed=0)
    assert env._inner is env.unwrapped
    env.env.step = lambda action: ("changed", 1.0, False, False, {})
    observer.check()
    assert env.step(0)[0] == "changed"


def test_a_reset_hands_on_what_the_long_way_hands_on():
    class Reporting(gymnasium.Env):
        action_space = observation_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=42, options=("its own",)):
            super().reset(seed=None)
            self.reported = (seed, options)
            return 0, {}

        def step(self, action):
            return 0, 0.0, False, False, {}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checker finds fault with it, as it is meant to
        made = [gymnasium.make(EnvSpec("Telling-v0", entry_point=Reporting, max_episode_steps=9)) for _ in range(2)]
        plain, probed = made[0], Probe(made[1], Observer(lambda *_: None, 1e9), 0)
        for env in (plain, probed):
            after_some_steps(env)
            env.reset()
    assert probed._inner is probed.unwrapped
    for settings in ({}, {"seed": 7}, {"options": {"a": 1}}, {"seed": 7, "options": {}}):
        for env in (plain, probed):
            env.reset(**settings)
        assert probed.unwrapped.reported == plain.unwrapped.reported
        assert probed.env._elapsed_steps == 0
    with pytest.raises(TypeError, match="unknown"):
        probed.reset(unknown=1)


def test_a_reset_of_the_script_s_own_is_not_passed_by():
    observer = Observer(lambda *_: None, 1e9)
    env = Probe(gymnasium.make("CartPole-v1"), observer, 0)
    after_some_steps(env)
    env.reset(seed=0)
    assert env._inner is env.unwrapped
    env.env.env.reset = lambda **_: ("its own", {})
    observer.check()
    assert env.reset()[0] == "its own"


def test_a_wrapper_of_the_script_s_own_is_not_passed_by():
    class Own(gymnasium.Wrapper):
        pass

    env = after_some_steps(gymnasium.make("CartPole-v1"))
    env.env.env = Own(env.env.env)
    assert shortcut(env).env is env.env.env
    assert shortcut(Own(env)) is None
    assert shortcut(env.unwrapped) is None


def test_a_step_before_the_reset_is_refused_as_ever():
    env = Probe(gymnasium.make("CartPole-v1"), Observer(lambda *_: None, 1e9), 0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


@pytest.fixture
def observer():
    return Observer(lambda *_: None, 0)


def test_each_member_keeps_its_number_also_in_a_second_vector(observer):
    def make():
        return Probe(gymnasium.make("CartPole-v1"), observer, observer.take_index())

    vector = observed(gymnasium.vector.SyncVectorEnv, observer)
    first, second = vector([make, make]), vector([make])
    assert [env.index for env in (*first.envs, *second.envs)] == [0, 1, 2]
    first.close()
    second.close()


def test_steps_are_counted_once_by_the_process_that_takes_them(observer):
    def make():
        return Probe(gymnasium.make("CartPole-v1"), observer, observer.take_index())

    together = observed(gymnasium.vector.SyncVectorEnv, observer)([make, make])
    alone = make()
    together.reset(seed=1)
    alone.reset(seed=1)
    for _ in range(3):
        together.step(np.array([0, 1]))
        alone.step(0)
    assert observer.steps == 3 * 2 + 3
    assert [env.steps for env in (*together.envs, alone)] == [3, 3, 3]
    together.close()
    alone.close()


def test_after_a_vector_that_could_not_be_made_single_environments_are_counted_again(observer):
    def fail():
        raise ValueError("no such world")

    with pytest.raises(ValueError, match="no such world"):
        observed(gymnasium.vector.SyncVectorEnv, observer)([fail])
    alone = Probe(gymnasium.make("CartPole-v1"), observer, observer.take_index())
    alone.reset(seed=1)
    alone.step(0)
    assert observer.steps == 1
    alone.close()


def test_a_stop_is_observed_after_a_step_although_the_members_do_not_see_it(observer):
    vector = observed(gymnasium.vector.SyncVectorEnv, observer)([lambda: gymnasium.make("CartPole-v1")])
    vector.reset(seed=1)
    vector.step(np.array([0]))
    observer.stop_signal = signal.SIGTERM
    with pytest.raises(Stopped):
        vector.step(np.array([0]))
    vector.close()


def test_it_is_the_member_of_the_vector_in_everything():
    prepare_rendering("rgb_array")
    one = SingleEnv(gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array")]))
    single = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    assert np.array_equal(one.reset(seed=5)[0], single.reset(seed=5)[0])
    for action in (np.int64(1), 0, np.int64(1)):
        mine, its = one.step(action), single.step(action)
        assert np.array_equal(mine[0], its[0])
        assert mine[1:4] == its[1:4]
    assert np.array_equal(one.render(), single.render())
    assert one.action_space == single.action_space
    assert one.metadata["render_fps"] == single.metadata["render_fps"]
    one.close()
    single.close()


def test_a_continuous_action_keeps_its_shape():
    one = SingleEnv(gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")]))
    one.reset(seed=1)
    assert one.step(np.array([0.5], dtype=np.float32))[0].shape == (3,)
    one.close()


def test_of_dictionaries_each_part_is_the_first():
    assert first({"a": np.array([[1, 2]]), "b": {"c": np.array([7])}})["b"]["c"] == 7
