import math
from itertools import pairwise

import pytest

from learn.estimates import Estimate, difference, estimate, student_mass, student_quantile, verdict


@pytest.mark.parametrize(
    ("freedom", "printed"), [(1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_quantiles_are_those_of_printed_tables(freedom, printed):
    assert student_quantile(freedom) == pytest.approx(printed, abs=6e-4)


def test_the_mass_agrees_with_the_density_summed_in_small_strips():
    freedom, bound, strips = 3.7, 2.5, 20_000
    scale = math.gamma((freedom + 1) / 2) / (math.gamma(freedom / 2) * math.sqrt(freedom * math.pi))
    width = 2 * bound / strips
    middles = (-bound + (strip + 0.5) * width for strip in range(strips))
    summed = sum(scale * (1 + middle**2 / freedom) ** (-(freedom + 1) / 2) * width for middle in middles)
    assert student_mass(bound, freedom) == pytest.approx(summed, abs=1e-7)


def test_an_interval_is_the_textbook_one():
    # mean 3, sample variance 2.5, five samples: 2.776 * sqrt(2.5 / 5)
    found = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.mean == 3
    assert found.half_width == pytest.approx(2.7764 * math.sqrt(0.5), rel=1e-4)


def test_one_sample_says_nothing_about_the_spread():
    assert estimate([7.0]) == Estimate(7.0, math.inf)
    assert verdict(difference([7.0], [1.0, 2.0])) == "equal, above"


def test_a_difference_of_equally_spread_sides_has_the_pooled_freedom():
    # equal sizes and variances: Welch's freedom is 2 (n - 1) = 8
    gap = difference([11.0, 12.0, 13.0, 14.0, 15.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert gap.mean == 10
    assert gap.half_width == pytest.approx(2.306 * math.sqrt(2 * 2.5 / 5), rel=1e-3)


def test_sides_that_never_vary_are_compared_exactly():
    assert verdict(difference([500.0, 500.0], [500.0, 500.0])) == "equal"
    assert verdict(difference([500.0, 500.0], [499.0, 499.0])) == "better"
    assert verdict(difference([498.0, 498.0], [499.0, 499.0])) == "worse"


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (Estimate(2.0, 1.0), "better"),
        (Estimate(2.0, 3.0), "equal, above"),
        (Estimate(-2.0, 3.0), "equal, below"),
        (Estimate(-2.0, 1.0), "worse"),
    ],
)
def test_the_result_follows_the_interval(gap, words):
    assert verdict(gap) == words


def test_more_freedom_makes_us_surer():
    quantiles = [student_quantile(freedom) for freedom in (1, 1.5, 2, 3, 5, 10, 100)]
    assert all(before > after for before, after in pairwise(quantiles))
