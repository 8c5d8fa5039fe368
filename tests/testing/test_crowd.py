import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.testing.check_env import check_env
from palaestra.testing.crowd import Crowd, CrowdBatch


def opened(world_count=2, **settings):
    batch = CrowdBatch(world_count, [Crowd(**settings)])
    out = np.zeros(world_count * batch.agents, np.int64)
    batch.reset(range(world_count), range(world_count), [0] * world_count, out)
    return batch, out


def test_the_single_form_keeps_gymnasiums_rules_and_can_be_resumed():
    assert check_env(EnvConfig(id="palaestra/Crowd-v0")).why_inexact == ""


@pytest.mark.parametrize("shared", [False, True])
def test_who_says_what_is_shown_gets_a_point_or_its_world_the_mean(shared):
    batch, out = opened(shared=shared)
    rewards = np.zeros(6, np.float32)
    reported = out.copy()
    reported[0] += 1  # one of the first world is wrong
    batch.step(reported % 4, out, rewards)
    assert rewards.tolist() == pytest.approx([2 / 3] * 3 + [1] * 3 if shared else [0, 1, 1, 1, 1, 1])


def test_a_perfect_crowd_gets_a_point_per_step_until_it_is_cut():
    batch, out = opened(steps=5)
    for _ in range(5):
        endings = batch.step(out.copy(), out, np.zeros(6, np.float32))
    assert [(end.world, end.terminated, end.length, end.returns.tolist()) for end in endings] == [
        (0, False, 5, [5.0] * 3),
        (1, False, 5, [5.0] * 3),
    ]


def test_one_player_of_it_sees_what_the_batch_shows_the_first():
    batch, out = opened(world_count=1)
    env = Crowd()
    observed, _ = env.reset(seed=0)
    for _ in range(4):
        assert observed == out[0]
        observed, *_ = env.step(observed)
        batch.step(out.copy(), out, np.zeros(3, np.float32))


def test_restored_it_goes_on_alike():
    batch, out = opened()
    batch.step(out, out, np.zeros(6, np.float32))
    state = batch.capture()
    other, other_out = opened()
    other.restore(state)
    for _ in range(20):
        batch.step(out, out, np.zeros(6, np.float32))
        other.step(out, other_out, np.zeros(6, np.float32))
        assert out.tolist() == other_out.tolist()


def test_it_is_drawn_as_one_square_per_player():
    batch, _ = opened()
    assert batch.render(0).shape == (16, 48, 3)


def test_tasks_of_different_crowds_are_refused():
    with pytest.raises(UsageError, match="agents or count"):
        CrowdBatch(1, [Crowd(agents=2), Crowd(agents=3)])
