"""What the trainer gets of an arena, against the world batch below it."""

from __future__ import annotations

import inspect
import logging

import numpy as np
import pytest

from palaestra.apps.arena import batch as batch_module
from palaestra.apps.arena.batch import ArenaBatch, WorldBatch, make_batch
from palaestra.apps.arena.encoding import decode
from palaestra.apps.arena.observe import empty_rows
from palaestra.apps.arena.reference_batch import ReferenceBatch
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.tables import COUNTERS
from palaestra.core.errors import UsageError

SMALL = {"agents": 3, "width": 9, "height": 9, "mine": {"count": 2}, "generator": {"count": 1}, "altar": {"count": 1}}
SETTINGS = read_settings({**SMALL, "max_steps": 12, "rewards": {"ore": 1.0}})


def opened(settings=SETTINGS, world_count=2):
    worlds = ArenaBatch([settings], world_count)
    out = empty_rows(settings, world_count * settings.agents)
    worlds.reset(range(world_count), range(world_count), [0] * world_count, out)
    return worlds, out


def play(worlds, out, steps, seed=0):
    random_players, rewards = np.random.default_rng(seed), np.zeros(worlds.world_count * worlds.agents, np.float32)
    paid, endings = np.zeros_like(rewards, np.float64), []
    for _ in range(steps):
        endings = worlds.step(random_players.integers(6, size=len(rewards)), out, rewards)
        paid += rewards
    return paid.reshape(worlds.world_count, -1), endings


def test_a_cut_world_gives_each_agents_return_and_counters():
    worlds, out = opened()
    paid, endings = play(worlds, out, 12)
    assert [(ending.world, ending.terminated, ending.length) for ending in endings] == [(0, False, 12), (1, False, 12)]
    assert np.array_equal([ending.returns for ending in endings], paid)
    for ending in endings:
        assert list(ending.extras) == list(COUNTERS)
        assert ending.extras["ore"].tolist() == ending.returns.tolist()  # each ore paid 1
        assert ending.extras["moves"].shape == (3,)
    assert sum(ending.extras["moves"].sum() for ending in endings) > 0


def test_before_the_cut_nothing_ends():
    worlds, out = opened()
    assert play(worlds, out, 11)[1] == []


def test_captured_and_restored_it_goes_on_alike():
    worlds, out = opened()
    play(worlds, out, 5)
    other, other_out = opened()
    other.restore(worlds.capture())
    (expected, _), (found, _) = play(worlds, out, 7, seed=1), play(other, other_out, 7, seed=1)
    assert np.array_equal(found, expected)
    assert all(np.array_equal(out[name], other_out[name]) for name in out)


def test_it_is_drawn():
    worlds, _ = opened()
    image = worlds.render(1)
    assert (image.dtype, image.ndim, image.shape[2]) == (np.uint8, 3, 3)
    assert image.std() > 0


@pytest.mark.parametrize(
    ("name", "values"),
    [("agents", (3, 4)), ("view", (5, 11)), ("observation", ("bytes", "tokens")), ("tokens", (32, 96))],
)
def test_tasks_that_differ_in_what_a_policy_sees_are_refused_with_both_values(name, values):
    tasks = [read_settings({**SMALL, name: value}) for value in values]
    with pytest.raises(UsageError, match=f"differ in {name}: {values[0]} and {values[1]}"):
        ArenaBatch(tasks, 2)


def test_without_the_core_the_reference_serves_and_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(batch_module, "compiled", None)
    monkeypatch.setattr(batch_module, "compile_error", "no module named core")
    batch_module._warn_about_speed.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert isinstance(make_batch([SETTINGS], 1), ReferenceBatch)
        make_batch([SETTINGS], 1)
    assert [record.message for record in caplog.records] == [
        "Arena's compiled core was not built (no module named core); the slow reference in Python is used."
    ]


def test_with_the_core_it_is_used(monkeypatch):
    made = []
    monkeypatch.setattr(batch_module, "compiled", lambda *given: made.append(given) or "fast")
    assert make_batch([SETTINGS], 3, threads=2) == "fast"
    assert made == [([SETTINGS], 3, 2)]


def test_a_world_reports_its_state_with_the_numbers_of_the_same_step():
    worlds, out = opened()
    paid, _ = play(worlds, out, 5)
    message, total_reward, length = worlds.state_message(1)
    received = decode(message)
    assert received.state.step == length == 5
    assert np.array_equal(received.state.agents, worlds.world_state(1).agents)
    assert total_reward == paid[1].mean()
    assert received.episode == 1
    worlds.reset([1], [7], [0], out)
    assert decode(worlds.state_message(1)[0]).episode == 2
    assert decode(worlds.state_message(0)[0]).episode == 1


METHODS = ("reset", "step", "step_api", "counters", "returns", "world_state", "capture", "restore")


def test_the_interface_is_what_the_tests_of_batches_cover():
    named = {name for name, _ in inspect.getmembers(WorldBatch, inspect.isfunction) if not name.startswith("_")}
    assert named == set(METHODS)


def test_the_reference_takes_the_same_arguments_in_the_same_order():
    for name in METHODS:
        requested = list(inspect.signature(getattr(WorldBatch, name)).parameters)
        given = list(inspect.signature(getattr(ReferenceBatch, name)).parameters)
        assert given == requested, name
    assert list(inspect.signature(ReferenceBatch).parameters) == ["tasks", "world_count", "threads"]
