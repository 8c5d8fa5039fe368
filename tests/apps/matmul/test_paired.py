import random

import pytest

from palaestra.apps.matmul.paired import Ratio, paired_ratio


def test_rounds_are_compared_one_by_one():
    noise = [1.0, 3.0, 1.5, 9.0, 1.0]  # what others did meets both alike
    ratio = paired_ratio([2 * each for each in noise], noise)
    assert ratio == Ratio(2.0, 2.0, 2.0)


def test_of_few_rounds_the_extremes_are_the_bounds():
    assert paired_ratio([1.0, 3.0, 2.0, 5.0, 4.0], [1.0] * 5) == Ratio(1.0, 3.0, 5.0)
    assert paired_ratio([1.5], [1.0]) == Ratio(1.5, 1.5, 1.5)


def test_of_many_rounds_a_single_outlier_moves_no_bound():
    calm = [1.0 + k / 1000 for k in range(20)]
    wild = [*calm[:-1], 50.0]
    assert paired_ratio(calm, [1.0] * 20).high == paired_ratio(wild, [1.0] * 20).high


def test_the_true_middle_lies_within_the_bounds_19_times_of_20():
    dice = random.Random(4)
    for rounds in (6, 9, 20, 60):
        held = 0
        for _ in range(1000):
            samples = [dice.lognormvariate(0.0, 0.3) for _ in range(rounds)]
            ratio = paired_ratio(samples, [1.0] * rounds)
            held += ratio.low <= 1.0 <= ratio.high
        assert held > 930


def test_rounds_that_have_no_partner_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])
