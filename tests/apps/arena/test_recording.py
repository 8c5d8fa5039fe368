import gzip
import json

import pytest

from palaestra.apps.arena.recording import KIND, ReplayRecorder


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
