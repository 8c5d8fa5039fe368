import math

import pytest

from palaestra.algorithms.schedules import value_at
from palaestra.config.schedule import Schedule


@pytest.mark.parametrize(
    ("kind", "middle"),
    [("constant", 4.0), ("linear", 2.5), ("cosine", 2.5), ("exponential", 2.0)],
)
def test_each_kind_begins_at_start_and_is_known_in_the_middle(kind, middle):
    schedule = Schedule(start=4.0, end=1.0, kind=kind)
    assert value_at(schedule, 0.0) == 4.0
    assert math.isclose(value_at(schedule, 0.5), middle)


@pytest.mark.parametrize("kind", ["linear", "cosine", "exponential"])
def test_the_end_is_reached_and_holds_beyond_the_last_step(kind):
    schedule = Schedule(start=4.0, end=1.0, kind=kind)
    assert math.isclose(value_at(schedule, 1.0), 1.0)
    assert math.isclose(value_at(schedule, 1.7), 1.0)
