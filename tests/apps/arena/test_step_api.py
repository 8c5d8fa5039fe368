"""Arena's worlds through their batch step API (native/arena/batch.cpp), compared with `step`."""

import gc
import sys

import numpy as np
import pytest

from palaestra.apps.arena.batch import ArenaBatch, compiled
from palaestra.apps.arena.observe import empty_rows
from palaestra.apps.arena.reference_batch import ReferenceBatch
from palaestra.apps.arena.settings import read_settings
from palaestra.testing.batch_step_api import read_capsule

pytestmark = pytest.mark.skipif(compiled is None, reason="built without a C++ compiler")
SMALL = {"agents": 3, "width": 9, "height": 9, "mine": {"count": 2}, "generator": {"count": 1}, "altar": {"count": 1}}
WORLDS, ROWS = 4, 12


def begun(**settings):
    message = read_settings({**SMALL, "max_steps": 9, "rewards": {"ore": 1.0}, **settings})
    batch, out = ArenaBatch([message], WORLDS), empty_rows(message, ROWS)
    batch.reset(range(WORLDS), range(WORLDS), [0] * WORLDS, out)
    return batch, out


def parts_of(out):
    return list(out.values()) if isinstance(out, dict) else [out]


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_a_step_through_the_interface_is_the_step_itself(form):
    (one, one_out), (other, other_out) = (begun(observation=form) for _ in range(2))
    capsule = other.step_api()
    api = read_capsule(capsule)
    random_players = np.random.default_rng(1)
    rewards, paid, ended = np.zeros(ROWS, np.float32), np.zeros(ROWS, np.float32), np.ones(WORLDS, np.uint8)
    for _ in range(9):
        actions = random_players.integers(6, size=ROWS)
        endings = one.step(actions, one_out, rewards)
        api.acquire()
        for first, last in ((0, 1), (1, 4)):
            api.step_worlds(first, last, actions, parts_of(other_out), paid, ended)
        api.release()
        assert np.array_equal(paid, rewards)
        assert all(np.array_equal(*pair) for pair in zip(parts_of(one_out), parts_of(other_out), strict=True))
        assert [world for world in range(WORLDS) if ended[world]] == [ending.world for ending in endings]
    assert [ending.world for ending in endings] == [0, 1, 2, 3]
    for ending in endings:
        message = other.ending(ending.world)
        assert (message.length, message.terminated) == (ending.length, ending.terminated) == (9, False)
        assert np.array_equal(message.returns, ending.returns)
        assert all(np.array_equal(message.extras[name], values) for name, values in ending.extras.items())


def test_the_interface_says_what_is_behind_it():
    batch, out = begun()
    capsule = batch.step_api()
    api = read_capsule(capsule)
    assert (api.world_count, api.agents, api.action_items) == (WORLDS, 3, 1)
    assert api.describe_parts() == [(name, "uint8", part[0].size) for name, part in out.items()]
    for form in ("tokens", "box"):
        batch, out = begun(observation=form)
        capsule = batch.step_api()
        assert read_capsule(capsule).describe_parts() == [("", "uint8", out[0].size)]


def test_what_cannot_be_done_is_reported_and_nothing_moves():
    batch, out = begun()
    capsule = batch.step_api()
    api = read_capsule(capsule)
    before = [part.copy() for part in parts_of(out)]
    rewards, ended = np.zeros(ROWS, np.float32), np.zeros(WORLDS, np.uint8)
    rest, wrong = np.zeros(ROWS, np.int64), np.zeros(ROWS, np.int64)
    wrong[7] = 6
    with pytest.raises(RuntimeError, match="action 6 of row 7 is not one of 0 to 5"):
        api.step_worlds(0, WORLDS, wrong, parts_of(out), rewards, ended)
    with pytest.raises(RuntimeError, match="are not within 0 to 4"):
        api.step_worlds(0, WORLDS + 1, rest, parts_of(out), rewards, ended)
    assert all(np.array_equal(*pair) for pair in zip(parts_of(out), before, strict=True))
    for _ in range(9):
        api.step_worlds(0, WORLDS, rest, parts_of(out), rewards, ended)
    with pytest.raises(RuntimeError, match="world 0 is not in an episode: reset it before the next step"):
        api.step_worlds(0, WORLDS, rest, parts_of(out), rewards, ended)


def test_during_a_turn_nobody_else_comes_in():
    batch, out = begun()
    capsule = batch.step_api()
    api = read_capsule(capsule)
    rewards = np.zeros(ROWS, np.float32)
    api.acquire()
    with pytest.raises(RuntimeError, match="stepped by another thread"):
        api.acquire()
    with pytest.raises(RuntimeError, match="stepped by another thread"):
        batch.step(np.zeros(ROWS, np.int64), out, rewards)
    api.release()
    batch.step(np.zeros(ROWS, np.int64), out, rewards)


def test_the_step_api_holds_its_batch_and_lets_it_go():
    batch, _ = begun()
    core = batch.worlds._core
    before = sys.getrefcount(core)
    api = batch.step_api()
    assert sys.getrefcount(core) == before + 1
    del api
    gc.collect()
    assert sys.getrefcount(core) == before


def test_the_reference_in_python_has_no_interface():
    assert ReferenceBatch([read_settings(SMALL)], 1).step_api() is None
