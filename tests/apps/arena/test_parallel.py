"""Arena as PettingZoo's parallel environment."""

import builtins
import importlib
import sys
import warnings

import numpy as np
import pytest

from palaestra.apps.arena import parallel
from palaestra.apps.arena.parallel import ArenaParallelEnv
from palaestra.apps.arena.tables import COUNTERS
from palaestra.core.errors import MissingExtra

with warnings.catch_warnings():  # PettingZoo's own tests make their environments in a way that it deprecates
    warnings.simplefilter("ignore")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

SMALL = {"width": 9, "height": 9, "mine": {"count": 2}, "generator": {"count": 1}, "altar": {"count": 1}}


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_pettingzoos_own_test_passes(form):
    parallel_api_test(ArenaParallelEnv(agents=3, observation=form, max_steps=30, **SMALL), num_cycles=100)


def test_the_seed_decides():
    parallel_seed_test(lambda: ArenaParallelEnv(agents=2, max_steps=20, **SMALL), num_cycles=10)


def test_everybody_has_a_name_and_leaves_when_time_is_up():
    env = ArenaParallelEnv(agents=2, max_steps=2, **SMALL)
    env.reset(seed=1)
    assert env.agents == ["agent_0", "agent_1"]
    env.step({"agent_0": 0, "agent_1": 0})
    _, rewards, terminations, truncations, infos = env.step({"agent_0": 1, "agent_1": 0})
    assert truncations == {"agent_0": True, "agent_1": True}
    assert terminations == {"agent_0": False, "agent_1": False}
    assert set(rewards) == set(infos) == {"agent_0", "agent_1"}
    assert list(infos["agent_0"]) == list(COUNTERS)
    assert env.agents == []


def test_each_acts_under_its_own_name_whatever_the_order():
    one, other = (ArenaParallelEnv(agents=2, **SMALL) for _ in range(2))
    one.reset(seed=2)
    other.reset(seed=2)
    for _ in range(5):
        observations, *_ = one.step({"agent_0": 1, "agent_1": 3})
        also_seen, *_ = other.step({"agent_1": 3, "agent_0": 1})
        assert all(np.array_equal(observations[name]["cells"], also_seen[name]["cells"]) for name in observations)


def test_it_is_drawn():
    env = ArenaParallelEnv(render_mode="rgb_array", **SMALL)
    env.reset(seed=0)
    assert env.render().shape[2] == 3
    env.close()


def test_without_pettingzoo_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("pettingzoo"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, parallel.__name__)
    with pytest.raises(MissingExtra, match="multi"):
        importlib.import_module(parallel.__name__)
