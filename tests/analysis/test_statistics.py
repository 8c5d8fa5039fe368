import numpy as np
import pytest

from palaestra.analysis import statistics
from palaestra.analysis.statistics import (
    Estimate,
    estimate,
    format_estimate,
    interquartile_mean,
    mean_band,
    mean_of_strata,
    probability_of_improvement,
)


def array(*values):
    return np.array(values, np.float64)


def written_out_interval(strata, figure, resamples=20_000, seed=123):
    """By the book, one resample at a time."""
    generator = np.random.default_rng(seed)
    found = sorted(
        figure([[stratum[generator.integers(len(stratum))] for _ in stratum] for stratum in strata])
        for _ in range(resamples)
    )
    return found[int(0.025 * resamples)], found[int(0.975 * resamples)]


def written_out_iqm(strata):
    values = sorted(value for stratum in strata for value in stratum)
    quarter = int(0.25 * len(values))
    middle = values[quarter : len(values) - quarter]
    return sum(middle) / len(middle)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1, 2, 3, 1000], 2.5),
        ([5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6], 6.5),
        ([1, 3, 5, 7, 9, 11, 13, 15, 17], 9),
        ([4], 4),
        ([1, 2, 6], 3),
        ([-1e9, 0, 0, 0, 0, 0, 0, 1e9], 0),
    ],
)
def test_the_interquartile_mean_of_known_cases(values, wanted):
    assert interquartile_mean([array(*values)]) == wanted == written_out_iqm([values])


def test_the_interquartile_mean_is_over_the_values_of_all_strata_together():
    assert interquartile_mean([array(0, 1), array(9, 100)]) == 5


def test_strata_weigh_the_same_however_many_values_they_have():
    assert mean_of_strata([array(0, 0, 0, 0, 0, 0), array(10)]) == 5


@pytest.mark.parametrize("figure", ["mean", "iqm"])
def test_intervals_are_those_of_a_bootstrap_written_out(figure):
    drawn = np.random.default_rng(5)
    strata = [drawn.normal(10, 3, 9), drawn.normal(50, 8, 7)]
    statistic, reference = {
        "mean": (mean_of_strata, lambda strata: sum(sum(one) / len(one) for one in strata) / len(strata)),
        "iqm": (interquartile_mean, written_out_iqm),
    }[figure]
    found = estimate(strata, statistic)
    low, high = written_out_interval([list(one) for one in strata], reference, resamples=4_000)
    width = high - low
    assert found.value == pytest.approx(reference(strata))
    assert found.low == pytest.approx(low, abs=0.1 * width)
    assert found.high == pytest.approx(high, abs=0.1 * width)
    assert found.low < found.value < found.high


def test_resampling_stays_within_strata():
    # Within a stratum nothing varies, so nothing can; mixing the two would give anything from 0 to 100.
    found = estimate([array(0, 0, 0), array(100, 100, 100)], mean_of_strata)
    assert (found.low, found.value, found.high) == (50, 50, 50)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    drawn = np.random.default_rng(1)
    hits = 0
    for _ in range(100):
        found = estimate([drawn.normal(3, 1, 40)], mean_of_strata)
        hits += found.low <= 3 <= found.high
    assert 85 <= hits <= 100


def test_the_same_values_give_the_same_interval_and_another_seed_another():
    values = [np.random.default_rng(2).normal(size=12)]
    assert estimate(values, mean_of_strata) == estimate(values, mean_of_strata)
    assert estimate(values, mean_of_strata) != estimate(values, mean_of_strata, seed=1)


def test_one_value_has_no_interval():
    found = estimate([array(3), array(1, 2)], mean_of_strata)
    assert (found.value, found.low, found.high) == (2.25, None, None)


def test_chunks_do_not_change_how_many_resamples_there_are(monkeypatch):
    monkeypatch.setattr(statistics, "CHUNK", 100)
    assert sum(statistics._chunks(7)) == statistics.RESAMPLES
    assert estimate([np.arange(7.0)], mean_of_strata).value == 3


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ([2, 3], [0, 1], 1.0),
        ([0, 1], [2, 3], 0.0),
        ([1, 1], [1, 1], 0.5),
        ([1, 3], [2, 2], 0.5),
        ([1, 2, 3], [2, 2], (0 + 0.5 + 1) / 3),
    ],
)
def test_the_probability_of_improvement_counts_pairs(one, other, wanted):
    assert probability_of_improvement([(array(*one), array(*other))]).value == pytest.approx(wanted)


def test_the_probability_of_improvement_is_an_average_over_strata_and_turns_round():
    pairs = [(array(2, 3), array(0, 1)), (array(1, 2), array(1, 2))]
    there = probability_of_improvement(pairs)
    back = probability_of_improvement([(other, one) for one, other in pairs])
    assert there.value == pytest.approx((1 + 0.5) / 2)
    assert there.value + back.value == pytest.approx(1)


def test_the_interval_of_an_improvement_is_that_of_a_bootstrap_written_out():
    drawn = np.random.default_rng(3)
    one, other = drawn.normal(1, 1, 8), drawn.normal(0, 1, 6)

    def share(pair):
        return np.mean([x > y for x in pair[0] for y in pair[1]])

    low, high = written_out_interval([list(one), list(other)], share, resamples=2_000)
    found = probability_of_improvement([(one, other)])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.05)


def test_a_band_is_made_of_the_runs_that_are_there():
    values = np.array([[0.0, 0.0, 5.0], [10.0, 10.0, np.nan], [20.0, np.nan, np.nan]])
    low, high = mean_band(values)
    assert low[0] < 10 < high[0]
    assert (low[1], high[1]) == (0, 10)
    assert np.isnan([low[2], high[2]]).all()


def test_an_estimate_is_spoken_with_its_interval_where_it_has_one():
    assert format_estimate(Estimate(475.16, 470.04, 480.0)) == "475.2 [470, 480]"
    assert (format_estimate(Estimate(3.0)), format_estimate(None)) == ("3", "-")
