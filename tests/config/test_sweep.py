import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.config.resolve import resolve_config
from palaestra.config.sweep import MAX_TRIALS, SweepConfig, parse_seeds
from palaestra.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seeds"), [("1..5", (1, 2, 3, 4, 5)), ("1,3,7", (1, 3, 7)), ("4", (4,)), ("1..2, 9", (1, 2, 9))]
)
def test_seeds_are_a_span_a_list_or_both(text, seeds):
    assert parse_seeds(text) == seeds
    assert SweepConfig(seeds=text).seeds == seeds


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20, unique=True))
def test_a_list_of_seeds_is_read_as_it_was_written(seeds):
    assert parse_seeds(",".join(map(str, seeds))) == tuple(seeds)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5..1", "5 is above 1. Write 1..5."),
        ("1,1", "the seed 1 more than once"),
        ("1..3,2", "the seed 2 more than once"),
        ("a", "not a whole number"),
        ("-1", "not a whole number"),
        ("1.5", "not a whole number"),
        ("", "not a whole number"),
        ("1,", "not a whole number"),
        ("1..100000", "more than 1000 seeds"),
        ("2147483648", "up to 2147483647"),
    ],
)
def test_what_is_no_list_of_seeds_is_refused_with_what_would_be(text, said):
    with pytest.raises(UsageError, match="seed") as caught:
        parse_seeds(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"trails": 3}, "Did you mean 'trials'?"),
        ({"trials": 0}, "trials: 0"),
        ({"trials": MAX_TRIALS + 1}, "trials: 1001"),
        ({"method": "annealing"}, "method: 'annealing'"),
        ({"seeds": "5..1"}, "5 is above 1"),
        ({"seeds": [1, 1]}, "more than once"),
        ({"seeds": "1..3", "parameters": {"seed": [1, 2]}}, "seeds and seed cannot both be set"),
        ({"direction": "up"}, "direction: 'up'"),
    ],
)
def test_a_slip_in_a_sweep_is_named_like_any_other(asked, said):
    with pytest.raises(UsageError) as caught:
        resolve_config(SweepConfig, None, asked)
    assert said in str(caught.value)


def test_a_sweep_survives_the_way_to_disk_and_back():
    asked = SweepConfig(name="lr", seeds="1..3", parameters={"ppo.gamma": [0.9, 0.99]}, trials=3)
    assert SweepConfig.model_validate(asked.model_dump(mode="json")) == asked
