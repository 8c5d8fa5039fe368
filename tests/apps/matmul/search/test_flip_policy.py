from statistics import median

import pytest

from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.search.flip_guided_walk import FEATURES, IS_COMPILED, UNIFORM_WEIGHTS
from palaestra.apps.matmul.search.flip_policy import FlipTraining, run_guided_walk, train_flip_policy

SMALL = Format(2, 2, 2)
compiled_only = pytest.mark.skipif(not IS_COMPILED, reason="in Python this takes minutes")


def test_the_same_seed_learns_the_same_and_another_seed_something_else():
    words = {"generations": 2, "population": 4, "elite": 2, "episodes": 1, "max_flips": 40}
    first, again, other = (list(train_flip_policy(FlipTraining(SMALL, 7, seed, **words))) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [generation.index for generation in first] == [0, 1]
    assert len(first[-1].weights) == len(FEATURES)


def test_a_walk_that_is_given_no_flips_stays_with_the_schoolbook():
    assert run_guided_walk(SMALL, 7, UNIFORM_WEIGHTS, 1, 0) == (0, 8)


@compiled_only
@pytest.mark.slow
def test_what_was_learned_on_the_smallest_format_is_at_least_three_times_shorter_there_and_on_the_next():
    *_, last = train_flip_policy(FlipTraining(SMALL, 7))
    for format_, rank in ((SMALL, 7), (Format(2, 2, 3), 11)):
        learned, random = (
            [run_guided_walk(format_, rank, weights, 100 + seed, 50_000) for seed in range(60)]
            for weights in (last.weights, UNIFORM_WEIGHTS)
        )
        assert all(reached == rank for _, reached in learned)
        assert median(made for made, _ in learned) <= median(made for made, _ in random) / 3
