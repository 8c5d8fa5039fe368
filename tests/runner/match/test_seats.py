from __future__ import annotations

import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.evaluation.pool import Program
from palaestra.rendering.frame_format import Numbers
from palaestra.runner.match import seats as match_external
from palaestra.runner.match.seats import ExternalSeat, Seat, SingleAgentEnv, make_match_env, random_actions

CROWD = EnvConfig(id="palaestra/Crowd-v0", kwargs={"agents": 3, "steps": 5})
POLE = EnvConfig(id="CartPole-v1")


def test_a_person_plays_one_agent_and_gets_its_own_return():
    """In a crowd whoever says what it is shown is paid 1."""
    world = make_match_env(CROWD)
    seat = Seat(world, person=1)
    seat.begin(7, deterministic=False)
    paid = 0.0
    while not seat.is_over:
        shown = int(seat._observation[0, 1])
        seat.step(shown)
        paid += 1.0
    assert seat.length == 5
    assert seat.total_reward == paid == 5.0


def test_without_a_person_the_return_is_the_mean_of_all():
    seat = Seat(make_match_env(CROWD))
    seat.begin(7, deterministic=False)
    rewards = []
    while not seat.step(0):
        rewards.append(seat._rewards.mean())
    rewards.append(seat._rewards.mean())
    assert seat.total_reward == pytest.approx(sum(rewards))
    assert 0 < seat.total_reward < 5


def test_the_person_pushes_the_pole_as_gymnasium_says():
    seat, env = Seat(make_match_env(POLE), person=0), gymnasium.make("CartPole-v1")
    seat.begin(3, deterministic=False)
    env.reset(seed=3)
    actions = [1, 1, 0, 1, 0, 0, 1]
    for action in actions:
        assert not seat.step(action)
        expected, *_ = env.step(action)
    np.testing.assert_allclose(seat._observation[0, 0].numpy(), expected, rtol=1e-6)
    assert (seat.length, seat.total_reward) == (7, 7.0)
    env.close()
    seat.close()


def test_the_same_seed_gives_chance_the_same_episode_and_another_another():
    def lengths(seed):
        seat = Seat(make_match_env(POLE))
        seat.begin(seed, deterministic=False)
        while not seat.step(0):
            pass
        seat.close()
        return seat.length

    assert lengths(5) == lengths(5)
    assert len({lengths(seed) for seed in range(6)}) > 1


def test_an_action_beyond_the_last_is_the_last():
    seat = Seat(make_match_env(POLE), person=0)
    seat.begin(1, deterministic=False)
    assert not seat.step(99)
    seat.close()


def test_a_view_has_frame_and_numbers_of_the_same_step():
    seat = Seat(make_match_env(POLE), person=0)
    seat.begin(1, deterministic=False)
    seat.step(1)
    view = seat.view()
    assert view.content.shape == (400, 600, 3)
    assert view.numbers == Numbers(1, 1.0, 1.0, 1)
    seat.close()


def test_a_person_cannot_play_with_numbers_nor_an_agent_that_does_not_exist():
    with pytest.raises(UsageError, match="action space is not discrete"):
        Seat(make_match_env(EnvConfig(id="Pendulum-v1")), person=0)
    with pytest.raises(UsageError, match="Invalid agent 3: the environment has 3"):
        Seat(make_match_env(CROWD), person=3)


class Fragile(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        raise KeyError("lost")


def test_an_environment_that_raises_is_named_with_seed_and_step():
    seat = Seat(SingleAgentEnv(Fragile()))
    seat.begin(4, deterministic=False)
    with pytest.raises(RunFailed, match=r"KeyError, seed 4, step 1"):
        seat.step(0)


@pytest.mark.parametrize(
    ("space", "low", "high", "shape"),
    [
        (DiscreteSpec(3, start=2), 2, 4, (500,)),
        (MultiDiscreteSpec((2, 5)), 0, 4, (500, 2)),
        (BoxSpec((2, 2), "float32", (-2.0, 0.0, 0.0, 0.0), (2.0, 1.0, 1.0, 1.0)), -2, 2, (500, 2, 2)),
        (BoxSpec((1,), "float32", (-np.inf,), (np.inf,)), -1, 1, (500, 1)),
    ],
)
def test_chance_draws_from_the_whole_space_and_from_nothing_else(space, low, high, shape):
    drawn = random_actions(space, 500, np.random.default_rng(0))
    assert drawn.shape == shape
    assert drawn.min() >= low
    assert drawn.max() <= high
    if drawn.dtype.kind == "i":
        assert (drawn.min(), drawn.max()) == (low, high)


def test_actions_with_named_parts_are_refused():
    with pytest.raises(UsageError):
        random_actions(DictSpec((("a", DiscreteSpec(2)),)), 1, np.random.default_rng(0))


PLAYER = """
import json, os, sys
answers = int(sys.argv[1])
say = lambda message: os.write(answers, json.dumps(message).encode() + b"\\n")
start, length = json.loads(sys.stdin.readline()), 0
for line in sys.stdin:
    command = json.loads(line)
    if "begin" in command:
        length = 0
        [seed] = command["begin"]["seeds"]
        if seed == 13:
            say({"error": "The checkpoint cannot be played: no such class.", "hint": ""})
            continue
        if seed == 14:
            sys.exit(3)
    elif "step" in command:
        length += 1
    else:
        continue
    say({"at": {"reward": 1.0, "total_reward": seed + length, "length": length, "is_over": length == 3}})
"""


def checkpoint(epoch):
    program = Program((sys.executable, "-c", PLAYER), {})
    policy = SimpleNamespace(match_player=lambda: ({"weights": epoch}, program))
    return SimpleNamespace(policy=policy, checkpoint=SimpleNamespace(epoch=epoch, env={"id": "CartPole-v1"}))


@pytest.fixture
def seat(tmp_path):
    made = ExternalSeat(1, tmp_path / "buffer")
    made.load(checkpoint(5))
    yield made
    made.close()


def test_an_episode_is_played_step_by_step_by_the_other_process(seat):
    assert seat.is_over
    seat.begin(10, deterministic=True)
    assert (seat.seed, seat.length, seat.total_reward, seat.is_over) == (10, 0, 10, False)
    assert [seat.step(0) for _ in range(3)] == [False, False, True]
    assert (seat.length, seat.total_reward) == (3, 13)
    seat.show()
    seat.begin(20, deterministic=True)
    assert (seat.length, seat.total_reward, seat.is_over) == (0, 20, False)


def test_a_newer_checkpoint_has_a_process_of_its_own_and_the_same_one_keeps_it(seat):
    first = seat._process.pid
    seat.load(checkpoint(5))
    assert seat._process.pid == first
    seat.load(checkpoint(6))
    assert seat._process.pid != first
    seat.begin(10, deterministic=False)
    assert not seat.is_over


def test_the_error_of_an_external_policy_is_raised(seat):
    with pytest.raises(RunFailed, match="no such class"):
        seat.begin(13, deterministic=False)


def test_a_process_that_ends_ends_the_match_with_a_reason(seat):
    with pytest.raises(RunFailed, match="that plays the script's policy has ended"):
        seat.begin(14, deterministic=False)


def test_a_process_that_says_nothing_is_not_waited_for_forever(seat, monkeypatch):
    monkeypatch.setattr(match_external, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(seat._process, "send", lambda _command: None)
    with pytest.raises(RunFailed, match=r"within 0\.05 s"):
        seat.begin(10, deterministic=False)
