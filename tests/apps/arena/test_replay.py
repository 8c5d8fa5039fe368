import gzip
import json
import random

import numpy as np
import pytest

from palaestra.apps.arena.recording import ReplayRecorder
from palaestra.apps.arena.replay import KEYFRAME_INTERVAL, open_replay
from palaestra.core.errors import DamagedFile, UsageError


@pytest.fixture
def path(episode, tmp_path):
    with ReplayRecorder(tmp_path / "x.json.gz", episode.settings, episode.seed, {"run": "R"}) as recorder:
        for state, rewards in zip(episode.states, episode.rewards, strict=True):
            recorder.add(state, rewards)
    return recorder.path


def rewritten(path, change):
    """The same replay with its document changed by hand"""
    document = json.loads(gzip.decompress(path.read_bytes()))
    change(document)
    steps = document.pop("steps")
    end = document.pop("end")
    lines = ",\n".join(json.dumps(step) for step in steps)
    text = json.dumps(document)[:-1] + ',"steps":[\n' + lines + '\n],"end":' + json.dumps(end) + "}\n"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_every_state_and_every_reward_can_be_had_in_any_order(path, episode, same_state):
    replay = open_replay(path)
    steps = list(range(replay.length + 1)) * 2
    random.Random(3).shuffle(steps)
    for step in steps:
        assert same_state(replay.state_at(step), episode.states[step])
        expected = np.zeros(8) if step == 0 else episode.rewards[step]
        np.testing.assert_array_equal(replay.rewards_at(step), expected)


def test_a_jump_follows_few_steps(path, monkeypatch):
    replay = open_replay(path)
    replay.state_at(replay.length)
    replay.state_at(0)
    followed = []
    monkeypatch.setattr(
        "palaestra.apps.arena.replay.follow", lambda state, change, source: followed.append(source) or state
    )
    replay.state_at(140)
    assert len(followed) == 140 % KEYFRAME_INTERVAL


def test_the_summary_says_how_it_went(path, episode):
    summary = open_replay(path).summary()
    assert (summary["steps"], summary["agents"], summary["map"], summary["seed"]) == (150, 8, "13x11", 5)
    assert summary["run"] == "R"
    assert summary["heart_held"] == episode.states[-1].inventories[:, 2].sum()
    assert summary["return_per_agent"] == pytest.approx(np.mean(sum(episode.rewards[1:])), abs=1e-5)


def test_it_can_be_read_as_text_and_seen_as_an_image(path):
    replay = open_replay(path)
    assert replay.text_at(9, color=False).count("\n") == 10 + 2
    assert "@" in replay.text_at(9, color=False, follow=11)  # follows agent 3: it counts around
    assert replay.image_at(9, 104).shape == (88, 104, 3)
    assert "held: " in replay.status_at(9)


@pytest.mark.parametrize("step", [-1, 151])
def test_a_step_that_there_is_not_is_refused_with_the_numbers(path, step):
    with pytest.raises(UsageError, match=f"has steps 0 to 150, not {step}"):
        open_replay(path).state_at(step)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(schema_version=2), "schema_version 2; this Palaestra reads 1 to 1"),
        (lambda document: document.update(kind="chess"), "a replay of 'chess', not of 'arena'"),
        (lambda document: document["steps"].pop(), "holds 149 steps and says that it has 150"),
        (lambda document: document.pop("start"), "first state cannot be read"),
        (lambda document: document["start"].update(map=["##", "#"]), "not equally long"),
        (lambda document: document["start"].update(map=["#" * 129] * 3), "width is 129"),
        (lambda document: document["start"].update(map=[]), "height is 0"),
        (lambda document: document["start"].update(agents=[[1, 2]]), "agents has shape"),
        (lambda document: document["start"].update(inventories=[]), "8 agents and 0 inventories"),
        (lambda document: document["start"].update(stations=[[0, 0, 99, 0, 0]]), "kind is 99"),
        (lambda document: document["start"].update(agents=[[2**40] * 6] * 8), "first state cannot be read"),
        (lambda document: document["start"].update(agents=[[1e300] * 6] * 8), "first state cannot be read"),
        (lambda document: document["start"].update(agents=[[None] * 6] * 8), "first state cannot be read"),
        (lambda document: document["start"].update(agents=5), "first state cannot be read"),
        (lambda document: document["start"].update(step="soon"), "first state cannot be read"),
    ],
)
def test_a_replay_that_is_newer_or_bent_is_refused_with_the_numbers(path, change, message):
    with pytest.raises(DamagedFile, match=message):
        open_replay(rewritten(path, change))


def test_a_bent_step_is_named_when_it_is_looked_at(path):
    replay = open_replay(rewritten(path, lambda document: document["steps"][19].update(cells=[0, 9999])))
    replay.state_at(19)
    with pytest.raises(DamagedFile, match="step 20: an agent's y"):
        replay.state_at(20)


def test_a_rewritten_replay_without_a_change_is_fine(path, episode, same_state):
    """So that the refusals above are of the change, not of the rewriting"""
    replay = open_replay(rewritten(path, lambda document: None))
    assert same_state(replay.state_at(150), episode.states[150])


def test_names_and_values_that_a_terminal_might_obey_are_left_out(path):
    def plant(document):
        document["about"] = {"run": "R", "\x1b[2J": 1, "two words": 1, "nested": {"a": 1}, "steps": 99, "kind": "x"}

    summary = open_replay(rewritten(path, plant)).summary()
    assert summary["run"] == "R"
    assert (summary["steps"], summary["kind"]) == (150, "arena")
    assert set(summary) & {"\x1b[2J", "two words", "nested"} == set()
