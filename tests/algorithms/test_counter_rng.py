"""Random numbers that are a function of a seed, an index and a counter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from palaestra.algorithms.counter_rng import CounterRng

MODULUS = 2**64
SEEDS_AND_INDICES = [(0, 0), (1, 0), (1, 1), (2**32 - 1, 10**9), (12345, 2**40)]


def split_mix(word: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), in unbounded integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % MODULUS
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % MODULUS
    return word ^ (word >> 31)


def bits(seed: int, index: int, counter: int) -> int:
    golden = 0x9E3779B97F4A7C15
    key = split_mix((seed + split_mix((index + 1) * golden % MODULUS)) % MODULUS)
    return split_mix((key + (counter + 1) * golden) % MODULUS)


def test_the_finaliser_is_that_of_split_mix():
    """The first output of the published generator from state 0."""
    assert split_mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize(("seed", "index"), SEEDS_AND_INDICES)
def test_numbers_are_those_of_a_scalar_reference(seed, index):
    rng = CounterRng(seed, index)
    words = [bits(seed, index, counter) for counter in range(50)]

    assert rng.bits(50).tolist() == words
    assert rng.uniform(50).tolist() == [(word >> 40) / 2**24 for word in words]
    assert rng.below(1000, 50).tolist() == [((word >> 32) * 1000) >> 32 for word in words]
    normals = [
        math.sqrt(-2 * math.log(((word >> 32) + 1) / 2**32)) * math.cos(2 * math.pi * (word % 2**32) / 2**32)
        for word in words
    ]
    np.testing.assert_allclose(rng.normal(50), normals, rtol=1e-6, atol=1e-7)


def test_a_shape_is_filled_in_its_order():
    rng = CounterRng(7, 3)
    assert np.array_equal(rng.uniform((4, 5)).ravel(), rng.uniform(20))
    assert np.array_equal(rng.uniform(20)[:6], rng.uniform(6)), "fewer numbers begin the same"


@pytest.mark.parametrize("limit", [1, 2, 7, 2**32])
def test_integers_lie_below_their_limit(limit):
    drawn = CounterRng(5, 5).below(limit, 2000)
    assert drawn.min() >= 0
    assert drawn.max() < limit
    if limit < 10:
        assert set(drawn.tolist()) == set(range(limit))


def test_normals_have_the_moments_of_a_normal():
    drawn = CounterRng(5, 5).normal(200_000).astype(np.float64)
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 1) < 0.01
    assert abs((drawn**4).mean() - 3) < 0.1
    assert abs((np.abs(drawn) < 1).mean() - 0.6827) < 0.005


def test_neighbouring_indices_and_seeds_are_unrelated():
    def uniform(seed: int, index: int) -> np.ndarray:
        return CounterRng(seed, index).uniform(100_000).astype(np.float64)

    for other in (uniform(1, 2), uniform(2, 1)):
        assert abs(np.corrcoef(uniform(1, 1), other)[0, 1]) < 0.02


def test_the_first_numbers_of_successive_indices_are_uniform():
    first = np.array([CounterRng(9, index).uniform(1)[0] for index in range(4000)], np.float64)
    counts, _ = np.histogram(first, bins=10, range=(0, 1))
    expected = len(first) / 10
    assert ((counts - expected) ** 2 / expected).sum() < 21.7  # chi-squared of 9 degrees of freedom at 1 %
