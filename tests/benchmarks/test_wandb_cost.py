"""How the cost of a W&B that does not answer is worked out and told."""

import pytest
from wandb_cost import HANGS, LEAVES, WITHOUT, page, slower


def test_a_side_that_takes_a_tenth_longer_is_a_tenth_slower():
    middle, low, high = slower([100.0] * 8, [110.0] * 8)
    assert (middle, low, high) == pytest.approx((0.1, 0.1, 0.1))


def test_the_interval_holds_the_middle_where_rounds_differ():
    middle, low, high = slower([100.0, 98.0, 103.0, 99.0], [101.0, 101.0, 100.0, 102.0])
    assert low < middle < high


def test_the_page_says_what_was_timed_and_how_each_side_did():
    speeds = {WITHOUT: [110.0] * 4, HANGS: [100.0] * 4, LEAVES: [110.0] * 4}
    reports = page({"rounds": 4, "steps": 9000, "warm_up": 1000, "load_before": 0.5, "steps_per_second": speeds})
    assert "4 rounds of 9,000 steps each,\ntimed behind the first 1,000" in reports
    assert f"| {HANGS} | 100 | +10.00% (+10.00% to +10.00%) |" in reports
    assert f"| {WITHOUT} | 110 |  |" in reports
