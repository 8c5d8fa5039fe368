from __future__ import annotations

import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.envs.build import make_playable
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.play import play
from palaestra.evaluation.targets import load_policy_target

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
    judged = play(plan, load_policy_target("first:3", runs.root).loaded.policy, lambda: make_playable(env))
    assert runs.ended("seed")[:3] == list(plan.seeds) == [11, 12, 13]
    assert runs.ended()[:3] == pytest.approx([episode.total_reward for episode in judged.episodes])
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
