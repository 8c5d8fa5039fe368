from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.rendering.frame_format import Numbers
from palaestra.runner.match_seat import PlainWorld, Seat, make_world, random_actions

CROWD = EnvConfig(id="palaestra/Crowd-v0", kwargs={"agents": 3, "steps": 5})
POLE = EnvConfig(id="CartPole-v1")


def test_a_person_plays_one_agent_and_gets_its_own_return():
    """In a crowd whoever says what it is shown is paid 1."""
    world = make_world(CROWD)
    seat = Seat(world, person=1)
    seat.begin(7, deterministic=False)
    paid = 0.0
    while not seat.is_over:
        shown = int(seat._seen[0, 1])
        seat.step(shown)
        paid += 1.0
    assert seat.length == 5
    assert seat.total_reward == paid == 5.0


def test_without_a_person_the_return_is_the_mean_of_all():
    seat = Seat(make_world(CROWD))
    seat.begin(7, deterministic=False)
    rewards = []
    while not seat.step(0):
        rewards.append(seat._rewards.mean())
    rewards.append(seat._rewards.mean())
    assert seat.total_reward == pytest.approx(sum(rewards))
    assert 0 < seat.total_reward < 5


def test_the_person_pushes_the_pole_as_gymnasium_says():
    seat, env = Seat(make_world(POLE), person=0), gymnasium.make("CartPole-v1")
    seat.begin(3, deterministic=False)
    env.reset(seed=3)
    actions = [1, 1, 0, 1, 0, 0, 1]
    for action in actions:
        assert not seat.step(action)
        expected, *_ = env.step(action)
    np.testing.assert_allclose(seat._seen[0, 0].numpy(), expected, rtol=1e-6)
    assert (seat.length, seat.total_reward) == (7, 7.0)
    env.close()
    seat.close()


def test_the_same_seed_gives_chance_the_same_episode_and_another_another():
    def lengths(seed):
        seat = Seat(make_world(POLE))
        seat.begin(seed, deterministic=False)
        while not seat.step(0):
            pass
        seat.close()
        return seat.length

    assert lengths(5) == lengths(5)
    assert len({lengths(seed) for seed in range(6)}) > 1


def test_an_action_beyond_the_last_is_the_last():
    seat = Seat(make_world(POLE), person=0)
    seat.begin(1, deterministic=False)
    assert not seat.step(99)
    seat.close()


def test_what_is_seen_has_the_numbers_of_the_same_step():
    seat = Seat(make_world(POLE), person=0)
    seat.begin(1, deterministic=False)
    seat.step(1)
    view = seat.view()
    assert view.content.shape == (400, 600, 3)
    assert view.numbers == Numbers(1, 1.0, 1.0, 1)
    seat.close()


def test_a_person_cannot_play_with_numbers_nor_an_agent_that_there_is_not():
    with pytest.raises(UsageError, match="short list"):
        Seat(make_world(EnvConfig(id="Pendulum-v1")), person=0)
    with pytest.raises(UsageError, match="There is no agent 3: there are 3"):
        Seat(make_world(CROWD), person=3)


class Fragile(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        raise KeyError("lost")


def test_an_environment_that_raises_is_named_with_seed_and_step():
    seat = Seat(PlainWorld(Fragile()))
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
