from __future__ import annotations

import math

import pytest

from palaestra.runs.differences import ABSENT, Difference, diff_configs, format_differences

OLD = {"seed": 1, "ppo": {"gamma": 0.99, "clip": {"start": 0.2}}, "tags": [1, 2], "gone": None}
NEW = {"seed": 2, "ppo": {"gamma": 0.99, "clip": {"start": 0.1}}, "tags": [1, 3], "fresh": None}


def test_differences_are_named_by_their_whole_key_and_sorted():
    assert diff_configs(OLD, NEW) == [
        Difference("fresh", ABSENT, None),
        Difference("gone", None, ABSENT),
        Difference("ppo.clip.start", 0.2, 0.1),
        Difference("seed", 1, 2),
        Difference("tags", [1, 2], [1, 3]),
    ]


def test_equal_configs_do_not_differ():
    assert diff_configs(OLD, OLD) == []
    assert diff_configs({}, {}) == []


@pytest.mark.parametrize(
    ("before", "after"), [(1, 1.0), (math.nan, math.nan), ([1, {"a": 2}], (1.0, {"a": 2})), (None, None)]
)
def test_values_that_mean_the_same_are_equal(before, after):
    assert diff_configs({"x": before}, {"x": after}) == []


@pytest.mark.parametrize(
    ("before", "after"), [(True, 1), (0, False), ("1", 1), ({}, None), ({"a": 1}, 1), ([1], [1, 2]), (None, ABSENT)]
)
def test_values_that_do_not_are_not(before, after):
    (difference,) = diff_configs({"x": before}, {"x": after})
    assert difference.key_path == "x"


def test_they_are_shown_one_a_line_and_a_long_list_is_cut_with_its_count():
    text = format_differences(diff_configs(OLD, NEW))
    assert text.splitlines()[:3] == ["fresh: (absent) -> None", "gone: None -> (absent)", "ppo.clip.start: 0.2 -> 0.1"]
    assert format_differences(diff_configs(OLD, NEW), limit=1).splitlines()[1:] == ["and 4 more"]
    assert format_differences([]) == ""
