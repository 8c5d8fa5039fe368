from __future__ import annotations

import json
import math

import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.loggers.open_interval import OpenInterval, summary_of


def filled(*values: float) -> OpenInterval:
    interval = OpenInterval(10)
    for place, value in enumerate(values):
        interval.add(Sample(10 + place, {"a": value}))
    return interval


def test_a_mean_lies_between_its_extremes_also_where_the_sum_is_beyond_all_bounds():
    sample = filled(1.7e308, 1.7e308, 1.6e308).sample()
    assert 1.6e308 <= sample.metrics["a"] <= 1.7e308


def test_it_goes_on_from_what_was_saved_with_the_same_bits(episode_maker):
    values = [0.1, 0.7, 1e17, -3.3, math.nan]
    whole, begun = filled(*values), filled(*values[:2])
    begun = OpenInterval.restored(json.loads(json.dumps(begun.capture())))
    for place, value in enumerate(values[2:], start=12):
        begun.add(Sample(place, {"a": value}))
    for interval in (whole, begun):
        interval.add(Sample(15, {}, episodes=(episode_maker(3.0, 15),)))
    assert begun.sample() == whole.sample()


def test_what_was_saved_does_not_change_when_more_is_added():
    interval = filled(1.0)
    saved = interval.capture()
    interval.add(Sample(11, {"a": 5.0}))
    assert OpenInterval.restored(saved).sample().metrics == {"a": 1.0}


def test_episodes_are_summarized_by_return_and_length(episode_maker):
    summary = summary_of([episode_maker(3.0, 1, length=5), episode_maker(-1.0, 2, length=9)])
    assert summary == pytest.approx((2, 2, 1.0, -1.0, 3.0, 7.0, 5, 9))
