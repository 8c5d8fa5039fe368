from __future__ import annotations

import io
import json
import queue

import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.core.spaces import encode_interface
from palaestra.envs.build import make_playable
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.play import play
from palaestra.evaluation.targets import load_policy_target
from palaestra.policies.build import build_policy
from palaestra.rendering.frame_buffer import VARIABLE, all_frame_buffers
from palaestra.runner.match import Conductor, Match, listen, main
from palaestra.runner.match_plan import MatchPlan
from palaestra.runner.match_seat import make_world
from palaestra.runs.store import RunStore

POLE = EnvConfig(id="CartPole-v1", max_episode_steps=40)
CROWD = EnvConfig(id="palaestra/Crowd-v0", kwargs={"agents": 3, "steps": 12})
POLICY = PolicyConfig(graph="mlp", settings={"hidden": [8]})


class Runs:
    def __init__(self, root):
        self.root = root
        self.told = []

    def save(self, name, env, epoch, seed=0):
        store = RunStore(self.root)
        directory = store.find(name) or store.create(RunRequest("native", "x", {}), config={}, name=name)
        world = make_world(env)
        torch.manual_seed(seed)
        policy = build_policy(POLICY, world.interface)
        world.close()
        checkpoint = Checkpoint(
            epoch=epoch,
            agent_step=epoch * 100,
            total_time=1.0,
            run=directory.id,
            run_name=name,
            saved_at=0.0,
            policy=POLICY.model_dump(),
            env=env.model_dump(),
            interface=encode_interface(policy.interface),
        )
        CheckpointManager(directory).save(policy, checkpoint)

    def match(self, *seats, **plan):
        return Match(MatchPlan(seats=tuple(seats), **plan), self.root, self.told.append)

    def ended(self, key="return"):
        return [word["ended"][key] for word in self.told if "ended" in word]


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


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


def test_all_seats_have_the_same_world_and_take_their_steps_together(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:3"}, {"player": "random"}, {"player": "person"}, seed=5)
    starts = [seat._seen.clone() for seat in match.seats]
    assert all(torch.equal(start, starts[0]) for start in starts)
    for steps in range(1, 6):
        match.step(1)
        assert {seat.length for seat in match.seats} == {steps}
    play_out(match)
    assert {seat.seed for seat in match.seats} == {5}
    assert sorted(runs.ended("seat")) == [0, 1, 2]
    match.close()


def test_apart_each_begins_anew_by_itself_with_a_seed_that_nobody_had(runs):
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
    monkeypatch.setattr("palaestra.runner.match.LOOK_SECONDS", 0.0)
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


def test_a_newer_checkpoint_is_not_looked_for_at_every_end_of_a_short_episode(runs, monkeypatch):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:latest"}, {"player": "first:latest"}, follow=True, rounds="apart")
    monkeypatch.setattr("palaestra.runner.match.load_target", None)  # it would be called here
    for _ in range(100):
        match.step(0)
    assert len(runs.ended()) > 2
    match.close()


def test_the_match_introduces_who_plays(runs):
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


class Blind:
    """A screen that only counts."""

    shown = 0

    def show(self, _seats):
        self.shown += 1

    def keep(self, _seats):
        pass


def conduct(match, pace, *words):
    heard = queue.SimpleQueue()
    for word in [*words, None]:
        heard.put(word)
    screen = Blind()
    Conductor(match, screen, pace, heard).run()
    return screen.shown


def test_without_a_pace_the_world_waits_for_each_key(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "person", "others": "first:3"}, seed=1)
    assert conduct(match, 0, {"action": 1}, {"action": 0}, {"action": 1}) == 3
    assert match.seats[0].length == 3
    match.close()


def test_paused_a_match_stands_still_and_again_begins_it_with_that_seed(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:3"}, seed=1)
    conduct(match, 0, {"paused": True}, {"pace": 60}, {"again": 9}, {})
    assert match.seats[0].seed == 9
    assert match.seats[0].length <= 1
    match.close()


def test_with_a_pace_the_world_goes_on_by_itself(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:3"}, seed=1)
    assert conduct(match, 60.0, *({} for _ in range(5))) >= 1
    assert match.seats[0].length >= 1
    match.close()


def test_listening_ends_with_the_input():
    words = queue.SimpleQueue()
    listen(io.StringIO('{"action": 1}\n'), words)
    assert [words.get(), words.get()] == [{"action": 1}, None]


def test_the_process_says_why_it_cannot_play_and_leaves_no_lane(runs, tmp_path, monkeypatch):
    (tmp_path / "lanes").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lanes"))
    out = io.StringIO()
    asked = {"lane": "m1", "runs": str(runs.root), "plan": {"seats": [{"player": "nobody:best"}]}}
    assert main(io.StringIO(json.dumps(asked) + "\n"), out) == 3
    assert "nobody" in json.loads(out.getvalue().splitlines()[-1])["error"]["message"]
    assert all_frame_buffers() == []


def test_the_process_plays_until_its_input_ends_and_leaves_no_lane(runs, tmp_path, monkeypatch):
    runs.save("first", POLE, 3)
    (tmp_path / "lanes").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lanes"))
    out = io.StringIO()
    plan = {"seats": [{"player": "person", "others": "first:3"}], "pace": 0}
    asked = json.dumps({"lane": "m1", "runs": str(runs.root), "plan": plan})
    assert main(io.StringIO(f'{asked}\n{{"action": 1}}\n'), out) == 0
    assert "ready" in out.getvalue()
    assert all_frame_buffers() == []
