from __future__ import annotations

import gzip
import json
import random

import numpy as np
import pytest

from palaestra.apps.arena.batch import ArenaBatch
from palaestra.apps.arena.observe import empty_rows
from palaestra.apps.arena.replay import KEYFRAME_INTERVAL, KIND, ReplayRecorder, open_replay, record_batch
from palaestra.apps.arena.settings import read_settings
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.runs.replays import read_kind


@pytest.fixture
def recorded(episode, tmp_path):
    with ReplayRecorder(tmp_path / "x.json.gz", episode.settings, episode.seed, {"run": "R", "epoch": 3}) as recorder:
        for state, rewards in zip(episode.states, episode.rewards, strict=True):
            recorder.add(state, rewards)
    return recorder.path


def test_a_replay_is_one_json_document_that_any_tool_reads(recorded, episode):
    document = json.loads(gzip.decompress(recorded.read_bytes()))
    assert document["schema_version"] == 1
    assert document["kind"] == KIND
    assert document["seed"] == episode.seed
    assert document["about"] == {"run": "R", "epoch": 3}
    assert document["settings"]["agents"] == 8
    assert len(document["start"]["map"]) == 11
    assert len(document["steps"]) == document["end"]["steps"] == 150


def test_its_end_has_the_returns_and_what_is_held(recorded, episode):
    end = json.loads(gzip.decompress(recorded.read_bytes()))["end"]
    assert end["returns"] == pytest.approx(sum(rewards.astype(float) for rewards in episode.rewards[1:]).tolist())
    assert list(end["items"].values()) == episode.states[-1].inventories.sum(0).tolist()


def test_the_same_episode_gives_the_same_bytes(recorded, episode, tmp_path):
    with ReplayRecorder(tmp_path / "y.json.gz", episode.settings, episode.seed, {"run": "R", "epoch": 3}) as recorder:
        for state, rewards in zip(episode.states, episode.rewards, strict=True):
            recorder.add(state, rewards)
    assert recorder.path.read_bytes() == recorded.read_bytes()


def test_an_episode_that_failed_leaves_nothing_behind(episode, tmp_path):
    with pytest.raises(RuntimeError), ReplayRecorder(tmp_path / "x.json.gz", episode.settings, 1) as recorder:
        recorder.add(episode.states[0])
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_of_an_episode_that_never_began(episode, tmp_path):
    with ReplayRecorder(tmp_path / "x.json.gz", episode.settings, 1):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_thousand_steps_take_less_than_a_hundred_kilobytes(recorded, episode):
    """Measured with 24 agents on a map of 25 x 25 at random play: 45 kB. Here eight agents play 150 steps."""
    assert recorded.stat().st_size < 150 * 8 * 100_000 / (1000 * 24) * 1.5


KWARGS = {"agents": 3, "width": 9, "height": 9, "max_steps": 20, "rewards": {"ore": 0.5}, "altar": {"count": 1}}


class Played:
    def __init__(self, batch, steps=20, seed=6):
        settings = read_settings(KWARGS)
        self.observations, self.rewards = empty_rows(settings, 3), np.zeros(3, np.float32)
        self.total = np.zeros(3)
        self.endings = []
        rng = np.random.default_rng(1)
        batch.reset([0], [seed], [0], self.observations)
        for _ in range(steps):
            self.endings += batch.step(rng.integers(0, 6, 3), self.observations, self.rewards)
            self.total += self.rewards


@pytest.fixture
def recorder(tmp_path):
    batch = ArenaBatch([read_settings(KWARGS)], 1)
    return record_batch(batch, KWARGS, lambda seed: tmp_path / f"{seed}.json.gz", {"run": "R"})


def test_it_plays_as_the_batch_that_it_was_given(recorder, same_state):
    plain = ArenaBatch([read_settings(KWARGS)], 1)
    first, second = Played(plain), Played(recorder)
    np.testing.assert_array_equal(first.total, second.total)
    assert first.endings[0].length == second.endings[0].length == 20
    assert (recorder.agents, recorder.interface, recorder.metadata) == (
        3,
        plain.interface,
        plain.metadata,
    )
    np.testing.assert_array_equal(plain.render(0), recorder.render(0))


def test_the_replay_ends_as_the_episode_did(recorder, tmp_path, same_state):
    played = Played(recorder)
    path = tmp_path / "6.json.gz"
    assert read_kind(path) == "arena"
    replay = open_replay(path)
    assert replay.length == 20
    assert replay.header["seed"] == 6
    assert replay.summary()["run"] == "R"
    assert replay.summary()["return_per_agent"] == pytest.approx(played.total.mean())
    assert same_state(replay.state_at(20), recorder._worlds.world_state(0))
    assert sum(replay.rewards_at(step).sum() for step in range(21)) == pytest.approx(played.total.sum())
    assert played.total.sum() > 0


def test_every_episode_has_a_file_of_its_own(recorder, tmp_path):
    for seed in (6, 7):
        Played(recorder, seed=seed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["6.json.gz", "7.json.gz"]


def test_an_episode_that_was_given_up_leaves_no_file(recorder, tmp_path):
    Played(recorder, steps=19)
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_an_episode_that_was_restored_is_played_and_not_recorded(recorder, tmp_path):
    Played(recorder, steps=10)
    state = recorder.capture()
    recorder.restore(state)
    observations, rewards = empty_rows(read_settings(KWARGS), 3), np.zeros(3, np.float32)
    endings = [ending for _ in range(10) for ending in recorder.step(np.zeros(3, np.int64), observations, rewards)]
    assert len(endings) == 1
    assert list(tmp_path.iterdir()) == []


def test_it_reports_the_state_of_the_batch_that_it_was_given(recorder):
    plain = ArenaBatch([read_settings(KWARGS)], 1)
    Played(plain, steps=7)
    Played(recorder, steps=7)
    assert recorder.state_message(0) == plain.state_message(0)


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
        "palaestra.apps.arena.replay.apply_change", lambda state, change, source: followed.append(source) or state
    )
    replay.state_at(140)
    assert len(followed) == 140 % KEYFRAME_INTERVAL


def test_the_summary_says_how_it_went(path, episode):
    summary = open_replay(path).summary()
    assert (summary["steps"], summary["agents"], summary["map"], summary["seed"]) == (150, 8, "13x11", 5)
    assert summary["run"] == "R"
    assert summary["heart_held"] == episode.states[-1].inventories[:, 2].sum()
    assert summary["return_per_agent"] == pytest.approx(np.mean(sum(episode.rewards[1:])), abs=1e-5)


def test_it_can_be_read_as_text_and_observed_as_an_image(path):
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
        (lambda document: document["steps"].pop(), "contains 149 steps, but its end names 150"),
        (lambda document: document.pop("start"), "first state cannot be read"),
        (lambda document: document["start"].update(map=["##", "#"]), "differ in length"),
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


def test_a_bent_step_is_named_when_it_is_inspected(path):
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
