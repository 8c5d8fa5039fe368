import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.rendering.demand import DEMAND, FASTEST, LONGEST_LEASE, Demand, merge, unpack_demand
from palaestra.rendering.layout import MAX_SIDE, MAX_SLOTS, checked

NOW = 1000.0


@given(st.frozensets(st.integers(0, MAX_SLOTS - 1)), st.integers(0, MAX_SIDE), st.floats(0.1, FASTEST))
def test_a_wish_comes_back_until_its_lease_is_over(slots, side, fps):
    demand = Demand(fps, side, slots, notifier=2**64 - 1, ticket=5)
    data = demand.pack(NOW + 2.0)
    assert unpack_demand(data, NOW) == demand
    assert unpack_demand(data, NOW + 2.1) is None


@pytest.mark.parametrize("fps", [math.nan, math.inf, 0.0, -3.0])
def test_a_rate_that_is_none_is_no_wish(fps):
    assert unpack_demand(Demand(fps, 0, frozenset({0}), 1, 1).pack(NOW + 1), NOW) is None


def test_a_rate_beyond_the_fastest_is_the_fastest():
    assert unpack_demand(Demand(1e9, 0, frozenset({0}), 1, 1).pack(NOW + 1), NOW).frames_per_second == FASTEST


@pytest.mark.fault("G14")
def test_a_lease_from_another_clock_is_no_wish():
    assert unpack_demand(Demand(5.0, 0, frozenset({0}), 1, 1).pack(NOW + LONGEST_LEASE + 1), NOW) is None


def test_a_wish_that_is_half_written_is_none():
    old = Demand(5.0, 64, frozenset({0}), 1, 1).pack(NOW + 1)
    new = Demand(9.0, 128, frozenset({3}), 2, 2).pack(NOW + 2)
    mixed = [new[:cut] + old[cut:] for cut in range(len(new))]
    for data in mixed:
        assert unpack_demand(data, NOW) in {None, unpack_demand(old, NOW), unpack_demand(new, NOW)}


@given(st.binary(min_size=DEMAND.size, max_size=DEMAND.size))
def test_whatever_stands_there_a_wish_makes_sense(data):
    demand = unpack_demand(checked(data), NOW)
    assert demand is None or (0 < demand.frames_per_second <= FASTEST and demand.largest_side <= MAX_SIDE)


def test_several_wishes_are_served_by_the_fastest_and_largest_and_every_slot():
    demands = [Demand(5.0, 320, frozenset({0, 1}), 7, 8), Demand(15.0, 64, frozenset({4}), 7, 8)]
    assert merge(demands) == Demand(15.0, 320, frozenset({0, 1, 4}), 7, 8)
    assert merge([*demands, Demand(1.0, 0, frozenset(), 7, 8)]).largest_side == 0
    assert merge([]) is None
