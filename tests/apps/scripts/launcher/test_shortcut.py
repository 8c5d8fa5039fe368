import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import OrderEnforcing

from palaestra.apps.scripts.launcher.observer import Observer
from palaestra.apps.scripts.launcher.probe import Probe
from palaestra.apps.scripts.launcher.shortcut import shortcut


def after_some_steps(env, count=3):
    env.reset(seed=0)
    for _ in range(count):
        env.step(0)
    return env


def way(env):
    found = shortcut(env)
    return found.limit, found.env


def test_it_leads_past_the_checks_once_they_are_done_and_not_before():
    env = gymnasium.make("CartPole-v1")
    assert shortcut(env) is None, "nothing was reset"
    env.reset(seed=0)
    assert shortcut(env).env is not env.unwrapped, "the first steps are still to be looked at"
    after_some_steps(env)
    assert way(env) == (env, env.unwrapped)


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
    assert way(env) == (env, env.unwrapped)
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


def test_what_the_script_changes_later_is_seen_with_the_next_look():
    observer = Observer(lambda *_: None, 1e9)
    env = Probe(gymnasium.make("CartPole-v1"), observer, 0)
    after_some_steps(env)
    env.reset(seed=0)
    assert env._inner is env.unwrapped
    env.env.step = lambda action: ("changed", 1.0, False, False, {})
    observer.look()
    assert env.step(0)[0] == "changed"


def test_a_reset_hands_on_what_the_long_way_hands_on():
    class Telling(gymnasium.Env):
        action_space = observation_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=42, options=("its own",)):
            super().reset(seed=None)
            self.told = (seed, options)
            return 0, {}

        def step(self, action):
            return 0, 0.0, False, False, {}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checker finds fault with it, as it is meant to
        made = [gymnasium.make(EnvSpec("Telling-v0", entry_point=Telling, max_episode_steps=9)) for _ in range(2)]
        plain, probed = made[0], Probe(made[1], Observer(lambda *_: None, 1e9), 0)
        for env in (plain, probed):
            after_some_steps(env)
            env.reset()
    assert probed._inner is probed.unwrapped
    for asked in ({}, {"seed": 7}, {"options": {"a": 1}}, {"seed": 7, "options": {}}):
        for env in (plain, probed):
            env.reset(**asked)
        assert probed.unwrapped.told == plain.unwrapped.told
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
    observer.look()
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
