from __future__ import annotations

import pytest

from palaestra.config.env import EnvConfig
from palaestra.config.evaluation import EvaluationConfig
from palaestra.core.errors import UsageError
from palaestra.evaluation.plan import LARGEST_SEED, env_of, make_plan, make_plans
from palaestra.evaluation.suites import suite_of

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


def suite():
    simulations = {
        "short": {"category": "speed", "env": {"max_episode_steps": 9}, "episodes": 2, "seed": 50},
        "plain": {},
    }
    settings = EvaluationConfig(episodes=3, seed=700, deterministic=False, simulations=simulations)
    return suite_of("mine", settings, ENV.model_dump())


def test_a_suite_gives_a_plan_for_each_simulation_with_what_it_says_before_what_holds_for_all():
    short, plain = make_plans("run:1", suite())
    assert (short.seeds, plain.seeds) == ((50, 51), (700, 701, 702))
    assert (short.simulation, short.category, plain.simulation, plain.category) == (
        "short",
        "speed",
        "plain",
        "default",
    )
    assert (short.max_episode_steps, plain.max_episode_steps) == (9, None)
    assert {plan.suite for plan in (short, plain)} == {"mine"}
    assert not short.deterministic


def test_what_is_asked_for_now_goes_before_what_the_suite_says():
    short, plain = make_plans("run:1", suite(), episodes=1, seed=0, deterministic=True)
    assert short.seeds == plain.seeds == (0,)
    assert plain.deterministic


def test_batches_have_seeds_of_their_own_without_a_gap():
    batches = [make_plans("run:1", suite(), batch=batch) for batch in range(3)]
    assert [seed for batch in batches for seed in batch[0].seeds] == list(range(50, 56))
    assert [seed for batch in batches for seed in batch[1].seeds] == list(range(700, 709))


def test_the_environment_of_a_plan_is_the_one_it_was_made_for():
    env = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True}, max_episode_steps=7)
    assert env_of(make_plan("run:1", env, episodes=1, seed=0)) == env
