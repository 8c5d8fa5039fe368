import math

import pytest

from palaestra.algorithms.base import Progress


def test_the_actor_makes_as_many_updates_as_the_critics_had_since_its_last(make):
    sac = make("sac", settings={"policy_interval": 3})
    due = []
    for count in range(7):
        sac.update_count = count
        due.append(sac.actor_updates_due())
    assert due == [0, 0, 3, 0, 0, 3, 0]


def test_random_numbers_of_the_actors_updates_are_never_used_twice(make):
    sac = make("sac", settings={"policy_interval": 3})
    used = []
    for count in range(30):
        sac.update_count = count
        used += [count + repeat for repeat in range(sac.actor_updates_due())]
    assert len(used) == len(set(used)) == 30


def test_learning_rates_follow_their_schedules_and_the_critics_may_have_one_of_their_own(make):
    half = Progress(0, 500, 1000)
    falling = {"start": 4e-3, "end": 0.0, "kind": "linear"}
    assert make("sac", settings={"learning_rate": falling}).learning_rates(half) == pytest.approx((2e-3, 2e-3))
    both = make("sac", settings={"learning_rate": falling, "critic_learning_rate": 1e-3})
    assert both.learning_rates(half) == pytest.approx((2e-3, 1e-3))


@pytest.mark.parametrize(("env", "expected"), [("Pendulum-v1", -1.0), ("CartPole-v1", 0.89 * math.log(2))])
def test_the_target_entropy_is_that_of_the_action_space(make, env, expected):
    assert make("sac", env).target_entropy == pytest.approx(expected)


def test_a_temperature_that_is_given_is_not_learned(make):
    assert make("sac").learns_temperature
    assert not make("sac", settings={"temperature": 0.1}).learns_temperature
