import math
from collections import Counter

import pytest

from palaestra.core.errors import UsageError
from palaestra.sweeps.draw import grid_settings, random_settings, size_of
from palaestra.sweeps.space import Choices, Range

COLOUR, NUMBER = Choices("colour", ("red", "blue")), Range("number", 1, 3, is_whole=True)
RATE = Range("rate", 1e-5, 1e-1, is_log=True)


def test_a_grid_has_every_combination_once():
    found = grid_settings((COLOUR, NUMBER))
    assert [(one["colour"], one["number"]) for one in found] == [
        (colour, number) for colour in ("red", "blue") for number in (1, 2, 3)
    ]


def test_a_grid_beyond_reason_is_refused_with_its_size():
    with pytest.raises(UsageError, match="10,000 points"):
        grid_settings((Range("a", 1, 100, is_whole=True), Range("b", 1, 100, is_whole=True)))


def test_the_same_seed_draws_the_same_and_more_trials_begin_with_the_fewer():
    few, many = random_settings((RATE, COLOUR), 7, 5), random_settings((RATE, COLOUR), 7, 50)
    assert many[:5] == few == random_settings((RATE, COLOUR), 7, 5)
    assert random_settings((RATE, COLOUR), 8, 5) != few


def test_nothing_is_drawn_twice_and_a_small_space_is_used_up():
    assert Counter(map(str, random_settings((COLOUR, NUMBER), 0, 6))) == Counter(
        map(str, grid_settings((COLOUR, NUMBER)))
    )
    assert len(random_settings((COLOUR, NUMBER), 0, 100)) == size_of((COLOUR, NUMBER)) == 6


def test_a_logarithmic_range_is_drawn_evenly_over_its_decades():
    decades = Counter(math.floor(math.log10(one["rate"])) for one in random_settings((RATE,), 0, 1000))
    assert all(abs(decades[decade] - 250) < 60 for decade in (-5, -4, -3, -2))


def test_a_range_of_numbers_has_no_end():
    assert size_of((RATE, COLOUR)) == math.inf
