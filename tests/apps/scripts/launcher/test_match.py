"""A script's policy plays in a match: the real process, the real script, and the same episode played by hand."""

import time
from contextlib import closing

import gymnasium
import pytest
import torch

from palaestra.apps.scripts.launcher.match import SlotView
from palaestra.core.errors import UsageError
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.rendering.frame_format import Demand, Numbers
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.offscreen import OffscreenRenderer, prepare_rendering
from palaestra.runner.match.match import Match
from palaestra.runner.match.plan import MatchPlan


@pytest.fixture
def saved(runs, scripts, ppo_agent):
    return runs.saved(scripts / "ppo.py", {"agent": ppo_agent})


@pytest.fixture
def buffer(tmp_path):
    with FrameBufferOwner(tmp_path / "match.frames", 2, 3 * 640**2, 0.0) as owner:
        yield owner.path


@pytest.fixture
def reader(buffer):
    with closing(FrameReader(buffer)) as made:
        yield made


def want(reader, *slots):
    reader.request(Demand(60.0, 0, frozenset(slots), 1, 1), time.monotonic() + 9)


def test_a_slot_is_written_only_while_a_viewer_wants_it(buffer, reader):
    prepare_rendering("rgb_array")
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    numbers = Numbers(4, 1.0, 2.0, 3)
    with closing(SlotView(buffer, 1)) as screen:
        screen.show(env, numbers)
        want(reader, 0)
        screen.show(env, numbers)
        assert reader.read(1) is None
        want(reader, 1)
        screen.show(env, numbers)
    assert reader.read(1).payload == OffscreenRenderer(env).render().tobytes()
    assert reader.read(1).numbers == numbers
    env.close()


def test_a_frame_buffer_that_is_not_there_yet_is_no_reason_to_stop(tmp_path):
    with closing(SlotView(tmp_path / "later.frames", 0)) as screen:
        screen.show(None, Numbers(0, 0.0, 0.0, 0))


def by_hand(agent, seed):
    """Length of the episode, and what the environment looks like after its fifth step."""
    prepare_rendering("rgb_array")
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    length, ended, image = 0, False, b""
    while not ended:
        with torch.no_grad():
            action = agent.actor(torch.tensor(observation)[None]).argmax(1).item()
        observation, _, terminated, truncated, _ = env.step(action)
        length, ended = length + 1, terminated or truncated
        if length == 5:
            image = OffscreenRenderer(env).render().tobytes()
    env.close()
    return length, image


@pytest.mark.slow
def test_a_scripts_policy_plays_beside_chance_and_is_shown(saved, runs, buffer, reader, ppo_agent):
    reported = []
    plan = MatchPlan(seats=({"player": f"{saved.id}:latest"}, {"player": "random"}), seed=40, deterministic=True)
    with closing(Match(plan, runs.store.root, reported.append, buffer)) as match:
        for _ in range(5):
            want(reader, 0)
            match.step(0)
        frame = reader.read(0)
        while not match.is_over:
            match.step(0)
    length, image = by_hand(ppo_agent, 40)
    assert frame.payload == image
    assert frame.numbers.length == 5
    ready = next(one["ready"] for one in reported if "ready" in one)
    assert (ready["env"], ready["seats"][0]["epoch"]) == ("CartPole-v1", 1)
    ended = [one["ended"] for one in reported if "ended" in one]
    assert [one["length"] for one in ended if one["seat"] == 0] == [length]


def test_beside_a_person_a_scripts_policy_cannot_play_the_others(saved, runs):
    plan = MatchPlan(seats=({"player": "person", "others": f"{saved.id}:latest"},))
    with pytest.raises(UsageError, match="plays in an environment of its own"):
        Match(plan, runs.store.root, lambda _told: None)
