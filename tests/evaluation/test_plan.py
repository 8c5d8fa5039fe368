from __future__ import annotations

import pytest

from palaestra.config.env import EnvConfig
from palaestra.contracts.errors import UsageError
from palaestra.evaluation.plan import LARGEST_SEED, make_plan

ENV = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True})


def test_seeds_follow_each_other_so_that_a_longer_plan_begins_like_a_shorter_one():
    short, long = (make_plan("run:1", ENV, episodes=count, seed=7) for count in (2, 4))
    assert long.seeds == (7, 8, 9, 10)
    assert long.seeds[:2] == short.seeds


def test_a_plan_says_which_environment_with_which_settings():
    plan = make_plan("run:1", ENV, episodes=1, seed=0, deterministic=False)
    assert (plan.env_id, plan.env_kwargs, plan.deterministic) == ("CartPole-v1", {"sutton_barto_reward": True}, False)


@pytest.mark.parametrize(("episodes", "seed"), [(0, 0), (-1, 0), (1, -1), (1, 2**64), (2, LARGEST_SEED)])
def test_what_cannot_be_played_is_refused(episodes, seed):
    with pytest.raises(UsageError):
        make_plan("run:1", ENV, episodes=episodes, seed=seed)
