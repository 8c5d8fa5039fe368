from __future__ import annotations

import os
from time import monotonic

import numpy as np
import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.envs.build import make_playable
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.play import play
from palaestra.evaluation.targets import load_policy_target
from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import LEASE_SECONDS, Demand, Numbers
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import View
from palaestra.runner.match.match import Display
from palaestra.runs.processes import process_started_at


class Sitting:
    """A seat that shows one colour."""

    def __init__(self, colour, is_over=False):
        self.colour, self.is_over, self.length = colour, is_over, 12
        self.drawn = 0

    def view(self):
        self.drawn += 1
        if self.colour is None:
            return View(b"a state", Numbers(self.length, 0.5, 2.5, 12))
        return View(np.full((200, 300, 3), self.colour, np.uint8), Numbers(self.length, 0.5, 2.5, 12))


@pytest.fixture
def ends(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    owner = FrameBufferOwner(frame_buffer_path("m1", "match"), 2, 3 * 100**2, process_started_at(os.getpid()))
    writer, reader = FrameWriter(owner.descriptor, owner.about), FrameReader(owner.path)
    yield writer, reader
    reader.close()
    writer.close()
    owner.close()


def want(reader, slots):
    reader.request(Demand(15.0, 64, frozenset(slots), 0, 1), monotonic() + LEASE_SECONDS)


def test_nobody_watches_and_nothing_is_drawn(ends):
    writer, _ = ends
    seats = [Sitting(1), Sitting(2)]
    Display(writer, 100).show(seats)
    assert [seat.drawn for seat in seats] == [0, 0]


def test_only_what_is_wanted_is_drawn_small_and_with_its_numbers(ends):
    writer, reader = ends
    seats = [Sitting(1), Sitting(2)]
    want(reader, [1, 7])
    Display(writer, 100).show(seats)
    assert [seat.drawn for seat in seats] == [0, 1]
    frame = reader.read(1)
    assert max(frame.header.width, frame.header.height) <= 100
    assert set(frame.payload) == {2}
    assert (frame.numbers.reward, frame.numbers.total_reward, frame.numbers.length) == (0.5, 2.5, 12)


def test_a_state_is_written_unchanged(ends):
    writer, reader = ends
    want(reader, [0])
    Display(writer, 100).show([Sitting(None)])
    assert reader.read(0).payload == b"a state"


def test_whoever_comes_later_sees_a_match_that_stands_still_and_its_heart_beats(ends):
    writer, reader = ends
    screen, seat = Display(writer, 100), Sitting(3)
    screen.refresh([seat])
    assert (seat.drawn, reader.heartbeat().condition) == (0, "open")
    want(reader, [0])
    screen._shown_at = 0.0  # long ago
    screen.refresh([seat])
    assert reader.read(0) is not None
    screen.close()
    assert reader.heartbeat().condition == "closed"


def test_steps_of_those_that_still_play_are_counted(ends):
    writer, reader = ends
    screen = Display(writer, 100)
    screen.show([Sitting(1), Sitting(2, is_over=True)])
    screen.show([Sitting(1), Sitting(2)])
    screen.close()
    assert reader.heartbeat().env_steps == 3


POLE = EnvConfig(id="CartPole-v1", max_episode_steps=40)
CROWD = EnvConfig(id="palaestra/Crowd-v0", kwargs={"agents": 3, "steps": 12})


def play_out(match):
    while not match.is_over:
        match.step(0)


@pytest.mark.parametrize("env", [POLE, CROWD], ids=["pole", "crowd"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_a_policy_plays_a_seed_exactly_as_an_evaluation_does(runs, env, deterministic):
    runs.save("first", env, 3)
    match = runs.match({"player": "first:3"}, seed=11, deterministic=deterministic)
    for _ in range(3):
        play_out(match)
        match.next_round()
    plan = make_plan("first:3", env, episodes=3, seed=11, deterministic=deterministic)
    evaluated = play(plan, load_policy_target("first:3", runs.root).loaded.policy, lambda: make_playable(env))
    assert runs.ended("seed")[:3] == list(plan.seeds) == [11, 12, 13]
    assert runs.ended()[:3] == pytest.approx([episode.total_reward for episode in evaluated.episodes])
    match.close()


def test_all_seats_start_from_the_same_observation_and_take_their_steps_together(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:3"}, {"player": "random"}, {"player": "person"}, seed=5)
    starts = [seat._observation.clone() for seat in match.seats]
    assert all(torch.equal(start, starts[0]) for start in starts)
    for steps in range(1, 6):
        match.step(1)
        assert {seat.length for seat in match.seats} == {steps}
    play_out(match)
    assert {seat.seed for seat in match.seats} == {5}
    assert sorted(runs.ended("seat")) == [0, 1, 2]
    match.close()


def test_apart_every_seat_starts_its_next_episode_alone_with_a_new_seed(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "random", "agent": 0}, {"player": "first:3"}, rounds="apart", seed=20)
    for _ in range(150):
        match.step(0)
    seeds = runs.ended("seed")
    assert not match.is_over
    assert len(seeds) > 4
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) == 20
    match.close()


def test_a_newer_checkpoint_takes_over_when_a_round_begins(runs, monkeypatch):
    monkeypatch.setattr("palaestra.runner.match.match.CHECK_SECONDS", 0.0)
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:latest"}, follow=True)
    before = match.seats[0].policy
    runs.save("first", POLE, 4, seed=1)
    match.next_round()
    assert {"newer": {"target": "first:latest", "epoch": 4}} in runs.told
    assert any(
        not torch.equal(one, other)
        for one, other in zip(before.parameters(), match.seats[0].policy.parameters(), strict=True)
    )
    match.close()


def test_newer_checkpoints_are_not_searched_for_after_every_short_episode(runs, monkeypatch):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:latest"}, {"player": "first:latest"}, follow=True, rounds="apart")
    monkeypatch.setattr("palaestra.runner.match.match.load_target", None)  # it would be called here
    for _ in range(100):
        match.step(0)
    assert len(runs.ended()) > 2
    match.close()


def test_the_match_publishes_who_plays(runs):
    runs.save("first", CROWD, 3)
    runs.match({"player": "first:3"}, {"player": "person", "agent": 2, "others": "first:3"}).close()
    ready = next(word["ready"] for word in runs.told if "ready" in word)
    assert (ready["env"], ready["players"], ready["actions"]) == ("palaestra/Crowd-v0", 3, 4)
    assert ready["seats"] == [
        {"player": "first:3", "agent": None, "run": "first", "epoch": 3},
        {"player": "person", "agent": 2, "run": "first", "epoch": 3},
    ]


def test_a_policy_of_another_environment_is_refused(runs):
    runs.save("first", POLE, 3)
    runs.save("crowd", CROWD, 1)
    with pytest.raises(UsageError):
        runs.match({"player": "first:3"}, {"player": "crowd:1"})
