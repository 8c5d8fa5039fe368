from __future__ import annotations

import json
import os
from dataclasses import asdict

import pytest

from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import DamagedFile, NotFound, UsageError
from palaestra.sweeps.store import SweepStore, Trial, TrialState, best_of, ranking

CONFIG = SweepConfig(name="lr", recipe="cartpole", parameters={"ppo.gamma": [0.9, 0.99]}, seeds="1..2", trials=4)
TRIALS = [
    Trial(1, {"ppo.gamma": 0.9}, TrialState.FINISHED, 12.5, {2: 1.0, 4: 2.5}),
    Trial(2, {"ppo.gamma": 0.99}, TrialState.FAILED, reason="it broke"),
    Trial(3, {"ppo.gamma": None}),
]


@pytest.fixture
def store(tmp_path):
    return SweepStore(tmp_path)


def test_what_is_written_is_read(store):
    directory = store.enter(CONFIG)
    assert directory.read_trials() == []
    directory.write_trials(TRIALS)
    assert store.find("lr").read_trials() == TRIALS
    assert store.find("lr").read_config() == CONFIG


def test_the_same_request_enters_the_same_sweep_and_may_ask_for_more_trials(store):
    store.enter(CONFIG).write_trials(TRIALS)
    more = CONFIG.model_copy(update={"trials": 9})
    assert store.enter(more).read_trials() == TRIALS
    assert store.find("lr").read_config() == more


def test_another_request_of_that_name_is_refused_with_the_difference(store):
    store.enter(CONFIG)
    with pytest.raises(UsageError, match="recipe: 'cartpole' -> 'acrobot'"):
        store.enter(CONFIG.model_copy(update={"recipe": "acrobot"}))
    assert store.find("lr").read_config() == CONFIG


def test_one_sweeper_at_a_time(store):
    directory = store.enter(CONFIG)
    with directory.held():
        with pytest.raises(UsageError, match=f"'lr' is being run by process {os.getpid()}"):
            with directory.held():
                raise AssertionError("two at once")
    with directory.held():
        pass


def test_a_sweep_is_found_by_name_or_as_the_latest(store):
    with pytest.raises(NotFound, match="There are none yet"):
        store.find("latest")
    for name, at in (("lr", 2000), ("gamma", 3000), ("old", 1000)):
        directory = store.enter(CONFIG.model_copy(update={"name": name}))
        os.utime(directory.sweep_file, (at, at))
    assert store.names() == ["gamma", "lr", "old"]
    assert store.find("latest").name == "gamma"
    with pytest.raises(NotFound, match="Did you mean 'gamma'"):
        store.find("gama")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema_version": 1}',
        '{"schema_version": 99, "trials": []}',
        '{"schema_version": 1, "trials": [{"number": 1}]}',
        '{"schema_version": 1, "trials": [5]}',
        json.dumps({"schema_version": 1, "trials": [asdict(Trial(2, {}))]}),
    ],
)
def test_damaged_books_are_refused_by_name(store, text):
    directory = store.enter(CONFIG)
    directory.trials_file.write_text(text)
    with pytest.raises(DamagedFile, match="trials.json"):
        directory.read_trials()


def test_a_damaged_sweep_is_listed_with_what_is_wrong_with_it(store):
    store.enter(CONFIG)
    store.enter(CONFIG.model_copy(update={"name": "broken"})).sweep_file.write_text("schema_version: 1\nmethd: grid\n")
    found = {directory.name: (config, problem) for directory, config, _, problem in store.list()}
    assert found["lr"] == (CONFIG, "")
    assert found["broken"][0] is None
    assert "sweep.yaml" in found["broken"][1]


FINISHED = TrialState.FINISHED


def trial(number, value, state=FINISHED):
    return Trial(number, {}, state, value)


def test_the_best_is_the_highest_or_the_lowest_as_requested():
    trials = [trial(1, 3.0), trial(2, 9.0), trial(3, -1.0)]
    assert best_of(trials, is_minimized=False) == trials[1]
    assert best_of(trials, is_minimized=True) == trials[2]


def test_only_a_finished_trial_can_be_best():
    trials = [trial(1, 99.0, TrialState.PRUNED), trial(2, None, TrialState.FAILED), trial(3, 0.0)]
    assert best_of(trials, is_minimized=False) == trials[2]
    assert best_of(trials[:2], is_minimized=False) is None
    assert best_of([], is_minimized=False) is None


def test_of_equals_the_first_is_best():
    assert best_of([trial(1, 5.0), trial(2, 5.0)], is_minimized=False).number == 1


def test_the_ranking_has_the_best_first_and_the_unknown_last():
    trials = [
        trial(1, None, TrialState.RUNNING),
        trial(2, 5.0, TrialState.PRUNED),
        trial(3, 1.0),
        trial(4, 2.0),
        trial(5, None, TrialState.FAILED),
    ]
    assert [one.number for one in ranking(trials, is_minimized=False)] == [4, 3, 2, 1, 5]
    assert [one.number for one in ranking(trials, is_minimized=True)] == [3, 4, 2, 1, 5]


def test_only_a_running_trial_is_not_over():
    assert [state for state in TrialState if not state.is_over] == [TrialState.RUNNING]
