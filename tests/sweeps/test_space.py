import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.core.errors import UsageError
from palaestra.sweeps.space import Choices, Range, parse_parameter, split_commas


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1..5", Range("k", 1, 5)),
        ("1e-4..1e-2:log", Range("k", 1e-4, 1e-2, is_log=True)),
        ("0.98..0.999", Range("k", 0.98, 0.999)),
        ("-1...5", Range("k", -1, 0.5)),
        ("8..64:int", Range("k", 8, 64, is_whole=True)),
        ("8..64:log:int:4", Range("k", 8, 64, is_log=True, is_whole=True, count=4)),
        ("0.1..0.3:5", Range("k", 0.1, 0.3, count=5)),
        ("a,b", Choices("k", ("a", "b"))),
        ("1,2.5,null,true", Choices("k", (1, 2.5, None, True))),
        ("[1, 2],[3]", Choices("k", ([1, 2], [3]))),
        ("'a,b',c", Choices("k", ("a,b", "c"))),
        ([64, 128], Choices("k", (64, 128))),
    ],
)
def test_the_grammar_means_what_the_page_says(text, meant):
    assert parse_parameter("k", text) == meant


@pytest.mark.parametrize("plain", ["0.99", "adam", "[1, 2]", "{a: 1, b: 2}", "../weights.pt", 3, None, True, "a..b"])
def test_anything_else_is_the_same_in_all_trials(plain):
    assert parse_parameter("k", plain) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5..1", "5 is above 1. Write k=1..5."),
        ("2..2", "one value, not a range. Write k=2."),
        ("0..1:log", "above 0, not from 0"),
        ("-1..1:log", "above 0, not from -1"),
        ("1..2:lgo", "Did you mean 'log'?"),
        ("1..2:log:log", "says nothing"),
        ("1..2:3:4", "says nothing"),
        ("1..2:", "says nothing"),
        ("1..2:1", "1 points cannot be"),
        ("1..2:100000", "100000 points cannot be"),
        ("1.5..3:int", "whole numbers"),
        ("a,a", "lists 'a' twice"),
        ("1,1.0", "twice"),
        ("a,,b", "a comma too many"),
        ("a,[b", "cannot be read"),
        ([], "lists no values"),
        ("-1e308..1e308", "too wide"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_the_key(text, said):
    with pytest.raises(UsageError) as caught:
        parse_parameter("k", text)
    assert said in str(caught.value)
    assert "k" in caught.value.message


def test_true_and_1_are_not_the_same_value():
    assert parse_parameter("k", "true,1") == Choices("k", (True, 1))


@given(
    st.floats(1e-6, 1e6),
    st.floats(1e-6, 1e6),
    st.floats(0, 1),
    st.booleans(),
)
def test_what_is_drawn_lies_between_the_ends_and_can_be_read(low, high, share, is_log):
    if low >= high:
        return
    number = Range("k", low, high, is_log=is_log).at(share)
    assert low <= number <= high
    assert number in (low, high) or number == float(f"{number:.4g}")


def test_the_middle_of_a_logarithmic_range_is_the_geometric_mean():
    assert Range("k", 1e-4, 1e-2, is_log=True).at(0.5) == pytest.approx(math.sqrt(1e-4 * 1e-2))
    assert Range("k", 1e-4, 1e-2).at(0.5) == pytest.approx((1e-4 + 1e-2) / 2)


def test_whole_numbers_stay_whole_and_a_grid_has_all_of_them():
    whole = Range("k", 3, 6, is_whole=True)
    assert whole.points() == (3, 4, 5, 6)
    assert all(isinstance(whole.at(share / 10), int) for share in range(11))
    assert Range("k", 1, 64, is_log=True, is_whole=True, count=7).points() == (1, 2, 4, 8, 16, 32, 64)


def test_a_grid_over_a_range_needs_a_number_of_points():
    with pytest.raises(UsageError, match="Write ppo.gamma=0.9..0.99:5") as caught:
        Range("ppo.gamma", 0.9, 0.99).points()
    assert "grid" in caught.value.message
    assert Range("k", 0, 1, count=5).points() == (0, 0.25, 0.5, 0.75, 1)


def test_every_choice_is_picked_by_its_share():
    choices = Choices("k", ("a", "b", "c"))
    assert [choices.at(share) for share in (0, 0.34, 0.99, 1.0)] == ["a", "b", "c", "c"]


@given(st.lists(st.text("ab1", min_size=1), min_size=1, max_size=5))
def test_splitting_at_commas_undoes_joining(pieces):
    assert split_commas(",".join(pieces)) == pieces


def test_commas_in_brackets_and_quotes_do_not_split():
    assert split_commas('[1,2],{a: "}"},"x,[",z') == ["[1,2]", '{a: "}"}', '"x,["', "z"]
