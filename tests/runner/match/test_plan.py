from __future__ import annotations

import pytest
from pydantic import ValidationError

from palaestra.runner.match.plan import MOST_SEATS, MatchPlan, SeatPlan

POLICY = {"player": "first:best"}


def test_a_checkpoint_plays_a_seat_alone_and_beside_a_person():
    assert SeatPlan(player="first:best").target == "first:best"
    assert SeatPlan(player="person", others="first:3").target == "first:3"
    assert SeatPlan(player="person").target is None
    assert SeatPlan(player="random").target is None


def test_the_environment_is_that_of_the_first_checkpoint_or_of_the_one_that_is_named():
    seats = ({"player": "random"}, {"player": "person", "others": "second:latest"}, POLICY)
    assert MatchPlan(seats=seats).env_target == "second:latest"
    assert MatchPlan(seats=seats, env_of="third:1").env_target == "third:1"
    assert MatchPlan(seats=({"player": "random"},), env_of="third:1").env_target == "third:1"
    assert MatchPlan(seats=seats).has_person
    assert not MatchPlan(seats=(POLICY,)).has_person


@pytest.mark.parametrize(
    "plan",
    [
        {"seats": []},
        {"seats": [{"player": "random"}]},  # in which environment?
        {"seats": [POLICY] * (MOST_SEATS + 1)},
        {"seats": [{"player": "person", "others": "first:1"}] * 2},
        {"seats": [POLICY], "pace": 61},
        {"seats": [POLICY], "seed": -1},
        {"seats": [POLICY], "rounds": "never"},
        {"seats": [POLICY], "colour": 1},
        {"seats": [{"player": "first:1", "agent": -1}]},
        {"seats": [{"player": ""}]},
    ],
)
def test_a_plan_that_cannot_be_played_is_refused(plan):
    with pytest.raises(ValidationError):
        MatchPlan.model_validate(plan)
