from statistics import median

import pytest

from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.search.flip_guided_walk import FEATURES, IS_COMPILED, UNIFORM_WEIGHTS
from palaestra.apps.matmul.search.flip_policy import FlipTraining, run_guided_walk, train_flip_policy

SMALL = Format(2, 2, 2)
compiled_only = pytest.mark.skipif(not IS_COMPILED, reason="in Python this takes minutes")


def test_training_is_deterministic_for_a_seed():
    words = {"generations": 2, "population": 4, "elite": 2, "episodes": 1, "max_flips": 40}
    first, again, other = (list(train_flip_policy(FlipTraining(SMALL, 7, seed, **words))) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [generation.index for generation in first] == [0, 1]
    assert len(first[-1].weights) == len(FEATURES)


def test_a_walk_without_flips_stays_at_the_naive_rank():
    assert run_guided_walk(SMALL, 7, UNIFORM_WEIGHTS, 1, 0) == (0, 8)


@compiled_only
@pytest.mark.slow
def test_a_trained_policy_needs_at_most_a_third_of_the_flips_and_transfers():
    *_, last = train_flip_policy(FlipTraining(SMALL, 7))
    for format_, rank in ((SMALL, 7), (Format(2, 2, 3), 11)):
        learned, random = (
            [run_guided_walk(format_, rank, weights, 100 + seed, 50_000) for seed in range(60)]
            for weights in (last.weights, UNIFORM_WEIGHTS)
        )
        assert all(reached == rank for _, reached in learned)
        assert median(made for made, _ in learned) <= median(made for made, _ in random) / 3
