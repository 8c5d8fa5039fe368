import numpy as np
import pytest

from palaestra.apps.arena.batch import ArenaBatch
from palaestra.apps.arena.recorded_batch import record_batch
from palaestra.apps.arena.replay import open_replay
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.spaces import empty_rows
from palaestra.runs.replays import read_kind

KWARGS = {"agents": 3, "width": 9, "height": 9, "max_steps": 20, "rewards": {"ore": 0.5}, "altar": {"count": 1}}


class Played:
    def __init__(self, batch, steps=20, seed=6):
        settings = read_settings(KWARGS)
        self.seen, self.rewards = empty_rows(settings, 3), np.zeros(3, np.float32)
        self.total = np.zeros(3)
        self.endings = []
        dice = np.random.default_rng(1)
        batch.reset([0], [seed], [0], self.seen)
        for _ in range(steps):
            self.endings += batch.step(dice.integers(0, 6, 3), self.seen, self.rewards)
            self.total += self.rewards


@pytest.fixture
def recorded(tmp_path):
    batch = ArenaBatch([read_settings(KWARGS)], 1)
    return record_batch(batch, KWARGS, lambda seed: tmp_path / f"{seed}.json.gz", {"run": "R"})


def test_it_plays_as_the_batch_that_it_was_given(recorded, same_state):
    plain = ArenaBatch([read_settings(KWARGS)], 1)
    first, second = Played(plain), Played(recorded)
    np.testing.assert_array_equal(first.total, second.total)
    assert first.endings[0].length == second.endings[0].length == 20
    assert (recorded.agents, recorded.interface, recorded.metadata) == (3, plain.interface, plain.metadata)
    np.testing.assert_array_equal(plain.render(0), recorded.render(0))


def test_the_replay_ends_as_the_episode_did(recorded, tmp_path, same_state):
    played = Played(recorded)
    path = tmp_path / "6.json.gz"
    assert read_kind(path) == "arena"
    replay = open_replay(path)
    assert replay.length == 20
    assert replay.header["seed"] == 6
    assert replay.summary()["run"] == "R"
    assert replay.summary()["return_per_agent"] == pytest.approx(played.total.mean())
    assert same_state(replay.state_at(20), recorded._worlds.world_state(0))
    assert sum(replay.rewards_at(step).sum() for step in range(21)) == pytest.approx(played.total.sum())
    assert played.total.sum() > 0


def test_every_episode_has_a_file_of_its_own(recorded, tmp_path):
    for seed in (6, 7):
        Played(recorded, seed=seed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["6.json.gz", "7.json.gz"]


def test_an_episode_that_was_given_up_leaves_no_file(recorded, tmp_path):
    Played(recorded, steps=19)
    recorded.close()
    assert list(tmp_path.iterdir()) == []


def test_an_episode_that_was_restored_is_played_and_not_recorded(recorded, tmp_path):
    Played(recorded, steps=10)
    state = recorded.capture()
    recorded.restore(state)
    seen, rewards = empty_rows(read_settings(KWARGS), 3), np.zeros(3, np.float32)
    endings = [ending for _ in range(10) for ending in recorded.step(np.zeros(3, np.int64), seen, rewards)]
    assert len(endings) == 1
    assert list(tmp_path.iterdir()) == []


def test_it_tells_the_state_of_the_batch_that_it_was_given(recorded):
    plain = ArenaBatch([read_settings(KWARGS)], 1)
    Played(plain, steps=7)
    Played(recorded, steps=7)
    assert recorded.state_message(0) == plain.state_message(0)
