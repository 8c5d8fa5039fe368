"""Worlds of several players stepped in one call, against a batch whose every number is known."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from palaestra.core.errors import RunFailed
from palaestra.core.spaces import EnvInterface
from palaestra.envs.spaces import space_spec
from palaestra.envs.vector.batch import BatchEnvs, SeedStream, WorldEnding

OBSERVATION = spaces.Box(-1e9, 1e9, (3,), np.float32)
ACTION = spaces.Discrete(4)


class CountingBatch:
    """A player observes (seed of the world % 1000, its own number, step) and is paid pay * (step + number / 10)."""

    def __init__(self, world_count, tasks):
        self.tasks = [{"agents": 1, "length": 3, "pay": 1.0, "terminates": False, **task} for task in tasks]
        self.world_count, self.agents = world_count, self.tasks[0]["agents"]
        self.interface = EnvInterface(space_spec(OBSERVATION), space_spec(ACTION))
        self.seeds, self.steps, self.playing = ([0] * world_count for _ in range(3))
        self.returns = np.zeros((world_count, self.agents))
        self.heard, self.calls, self.is_closed = None, 0, False

    def _show(self, world, out):
        rows = slice(world * self.agents, (world + 1) * self.agents)
        out[rows, 0], out[rows, 1] = self.seeds[world] % 1000, np.arange(self.agents)
        out[rows, 2] = self.steps[world]

    def reset(self, worlds, seeds, tasks, out):
        for world, seed, task in zip(worlds, seeds, tasks, strict=True):
            self.seeds[world], self.playing[world], self.steps[world] = seed, task, 0
            self.returns[world] = 0.0
            self._show(world, out)

    def step(self, actions, out, rewards):
        if (actions < 0).any():
            raise ZeroDivisionError("of a stranger")
        self.heard, self.calls = actions.copy(), self.calls + 1
        endings = []
        for world in range(self.world_count):
            task = self.tasks[self.playing[world]]
            self.steps[world] += 1
            paid = task["pay"] * (self.steps[world] + np.arange(self.agents) / 10)
            rewards[world * self.agents : (world + 1) * self.agents] = paid
            self.returns[world] += paid
            self._show(world, out)
            if self.steps[world] == task["length"]:
                number = np.arange(self.agents)
                ending = WorldEnding(
                    world, task["terminates"], self.steps[world], self.returns[world].copy(), {"number": number}
                )
                endings.append(ending)
        return endings

    def render(self, world):
        return np.full((4, 4, 3), self.steps[world], np.uint8)

    def capture(self):
        stored = {"seeds": self.seeds, "steps": self.steps, "playing": self.playing}
        return {name: list(values) for name, values in stored.items()} | {"returns": self.returns.copy()}

    def restore(self, state):
        self.seeds, self.steps, self.playing = (list(state[name]) for name in ("seeds", "steps", "playing"))
        self.returns = state["returns"].copy()

    def close(self):
        self.is_closed = True


def opened(world_count=2, agents=3, tasks=({},), source=None, names=()):
    batch = CountingBatch(world_count, [{"agents": agents, **task} for task in tasks])
    envs = BatchEnvs(batch, source, names)
    out = np.zeros((envs.count, 3), np.float32)
    envs.reset([100 + row for row in range(envs.count)], out)
    return envs, out


def play(envs, out, steps):
    """What was seen, paid and ended, step by step; actions differ from step to step."""
    story = []
    for step in range(steps):
        result = envs.step(np.arange(envs.count) % 4 if step % 2 else np.zeros(envs.count, np.int64), out)
        endings = [(ending.episode, ending.final_observation.tolist()) for ending in result.endings]
        story.append((out.tolist(), result.rewards.tolist(), endings))
    return story


def test_a_world_takes_the_seed_of_its_first_row_and_its_players_the_rows_from_there_on():
    envs, out = opened()
    assert envs.count == 6
    assert out.tolist() == [[100, 0, 0], [100, 1, 0], [100, 2, 0], [103, 0, 0], [103, 1, 0], [103, 2, 0]]


def test_all_worlds_are_stepped_in_one_call_with_one_action_per_row():
    envs, out = opened()
    result = envs.step(np.arange(6), out)
    assert envs.batch.calls == 1
    assert envs.batch.heard.tolist() == [0, 1, 2, 3, 4, 5]
    assert result.rewards.tolist() == pytest.approx([1.0, 1.1, 1.2] * 2)
    assert result.rewards.dtype == np.float32
    assert result.endings == []


def test_when_a_world_ends_each_of_its_players_has_an_ending_of_its_own_and_the_next_episode_is_shown():
    envs, out = opened(tasks=({"length": 2},))
    [_, (shown, _, endings)] = play(envs, out, 2)
    episodes = [episode for episode, _ in endings]
    assert [episode.env_index for episode in episodes] == [0, 1, 2, 3, 4, 5]
    assert [episode.total_reward for episode in episodes] == pytest.approx([3.0, 3.2, 3.4] * 2)
    assert {(episode.length, episode.terminated, episode.seed) for episode in episodes} == {(2, False, None)}
    assert [episode.extras for episode in episodes] == [{"number": 0.0}, {"number": 1.0}, {"number": 2.0}] * 2
    assert [final for _, final in endings] == [
        [100, 0, 2],
        [100, 1, 2],
        [100, 2, 2],
        [103, 0, 2],
        [103, 1, 2],
        [103, 2, 2],
    ]
    second_seed = SeedStream(100).next() % 1000
    assert shown[:3] == [[second_seed, 0, 0], [second_seed, 1, 0], [second_seed, 2, 0]]


def test_later_seeds_are_drawn_from_the_first_seed_of_a_world():
    envs, out = opened(tasks=({"length": 1},))
    streams = [SeedStream(100), SeedStream(103)]
    for _ in range(4):
        envs.step(np.zeros(6, np.int64), out)
        assert envs.batch.seeds == [stream.next() for stream in streams]


def test_termination_and_truncation_are_distinguished():
    envs, out = opened(tasks=({"length": 1, "terminates": True},))
    assert {ending.episode.terminated for ending in envs.step(np.zeros(6, np.int64), out).endings} == {True}


class Turns:
    """Tasks one after the other; remembers what it was told."""

    def __init__(self, names):
        self.names, self.asked, self.told = names, [], []

    def next_options(self, env_index):
        self.asked.append(env_index)
        return {"task": self.names[(len(self.asked) - 1) % len(self.names)]}

    def ended(self, env_index, total_reward):
        self.told.append((env_index, total_reward))


def test_tasks_are_drawn_once_per_world_and_episode_and_the_mean_return_is_reported_once():
    source = Turns(["short", "long"])
    envs, out = opened(tasks=({"length": 1, "pay": 10.0}, {"length": 3}), source=source, names=("short", "long"))
    assert (source.asked, envs.batch.playing) == ([0, 3], [0, 1])
    play(envs, out, 1)
    assert source.told == [(0, pytest.approx(11.0))]  # the mean of 10, 11 and 12
    assert (source.asked, envs.batch.playing) == ([0, 3, 0], [0, 1])
    play(envs, out, 1)
    assert (source.asked, envs.batch.playing) == ([0, 3, 0, 0], [1, 1])


def test_named_parts_keep_the_last_observation_although_the_reset_writes_over_it():
    class Parted(CountingBatch):
        def _show(self, world, out):
            super()._show(world, out["numbers"])

    envs = BatchEnvs(Parted(1, [{"agents": 2, "length": 1}]))
    out = {"numbers": np.zeros((2, 3), np.float32)}
    envs.reset([7, 8], out)
    endings = envs.step(np.zeros(2, np.int64), out).endings
    assert [ending.final_observation["numbers"].tolist() for ending in endings] == [[7, 0, 1], [7, 1, 1]]


def test_captured_and_restored_it_goes_on_as_if_nothing_had_happened():
    envs, out = opened(tasks=({"length": 4},))
    play(envs, out, 6)
    state = envs.capture()
    expected = play(envs, out, 9)
    other, out = opened(tasks=({"length": 4},))
    other.restore(state)
    assert play(other, out, 9) == expected
    assert any(endings for _, _, endings in expected)
    assert envs.why_inexact() == ""


def test_a_batch_that_cannot_give_its_state_says_so(monkeypatch):
    monkeypatch.setattr(CountingBatch, "capture", lambda self: None)
    envs, _ = opened()
    assert envs.capture() is None
    assert "cannot be captured" in envs.why_inexact()


def test_a_state_of_another_number_of_worlds_does_not_fit():
    envs, _ = opened(world_count=2)
    other, _ = opened(world_count=3)
    with pytest.raises(ValueError, match="2 worlds, this run 3"):
        other.restore(envs.capture())


def test_a_batch_that_raises_ends_with_a_clear_error():
    envs, out = opened()
    with pytest.raises(RunFailed, match="2 worlds raised ZeroDivisionError: of a stranger"):
        envs.step(np.full(6, -1), out)


class Doored(CountingBatch):
    """Somebody else steps it; it says how that ended."""

    def step_api(self):
        return None

    def ending(self, world):
        return self.told[world]


def test_an_episode_that_an_engine_ended_is_handled_like_one_that_step_ended():
    envs, out = opened(tasks=({"length": 2},))
    expected = play(envs, out, 3)
    other = BatchEnvs(Doored(2, [{"agents": 3, "length": 2}]))
    other.reset([100 + row for row in range(6)], out)
    rewards = np.zeros(6, np.float32)
    assert other.batch.step(np.zeros(6, np.int64), out, rewards) == []
    other.batch.told = dict(enumerate(other.batch.step(np.zeros(6, np.int64), out, rewards)))
    endings = other.land([0, 1], out)
    assert [(ending.episode, ending.final_observation.tolist()) for ending in endings] == expected[1][2]
    assert out.tolist() == expected[1][0]
    assert play(other, out, 1)[0] == expected[2]
    with pytest.raises(RunFailed, match="2 worlds raised KeyError: 5"):
        other.land([5], out)


def test_choices_that_do_not_begin_at_zero_arrive_shifted():
    envs, out = opened()
    batch = envs.batch
    batch.interface = EnvInterface(space_spec(OBSERVATION), space_spec(spaces.Discrete(4, start=10)))
    BatchEnvs(batch).step(np.arange(6), out)
    assert batch.heard.tolist() == [10, 11, 12, 13, 14, 15]


def test_closing_closes_the_batch():
    envs, _ = opened()
    envs.close()
    assert envs.batch.is_closed


def test_its_numbers_are_the_published_ones_of_splitmix64():
    """As Vigna's reference program prints them for the seed 1234567."""
    stream = SeedStream(1234567)
    assert [stream.next() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_its_state_is_all_there_is():
    stream = SeedStream(5)
    stream.next()
    other = SeedStream(stream.state)
    assert [other.next() for _ in range(3)] == [stream.next() for _ in range(3)]


def test_neighbouring_seeds_share_nothing():
    drawn = [
        number for seed in range(100) for stream in [SeedStream(seed)] for number in (stream.next(), stream.next())
    ]
    assert len(set(drawn)) == 200
