from __future__ import annotations

import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search import flip_guided_walk
from palaestra.apps.matmul.search.flip_guided_walk import (
    FEATURES,
    IS_COMPILED,
    UNIFORM_WEIGHTS,
    PythonGuidedWalk,
    start_guided_walk,
)

compiled_only = pytest.mark.skipif(not IS_COMPILED, reason="no compiler has been here")
WEIGHTS = (3.0, -0.5, 0.2, -0.1, 2.0, -3.0, -2.0)


def naive_masks(*sides):
    return to_masks(naive_factorization(Format(*sides), Field.GF2))


@compiled_only
@pytest.mark.parametrize("weights", [UNIFORM_WEIGHTS, WEIGHTS])
@pytest.mark.parametrize("sides", [(2, 2, 2), (2, 3, 3)])
def test_the_compiled_walk_takes_the_steps_of_the_python_walk(weights, sides):
    compiled, plain = (
        start_guided_walk(naive_masks(*sides), weights, 77),
        PythonGuidedWalk(naive_masks(*sides), weights, 77),
    )
    for _ in range(6):
        assert compiled.features() == plain.features()
        assert compiled.run(20, 0) == plain.run(20, 0)
        assert compiled.current == plain.current
        assert compiled.rng_state == plain.rng_state


@compiled_only
def test_invalid_schemes_and_flips_are_refused():
    with pytest.raises(ValueError, match="rows"):
        start_guided_walk([], UNIFORM_WEIGHTS, 1)
    with pytest.raises(ValueError, match="zeros"):
        start_guided_walk([[0, 1, 1]], UNIFORM_WEIGHTS, 1)
    with pytest.raises(IndexError):
        start_guided_walk(naive_masks(2, 2, 2), UNIFORM_WEIGHTS, 1).take(24)


def test_without_the_compiled_module_the_python_walk_is_used(monkeypatch):
    monkeypatch.setattr(flip_guided_walk, "IS_COMPILED", False)
    walk = start_guided_walk(naive_masks(2, 2, 2), UNIFORM_WEIGHTS, 1)
    assert isinstance(walk, PythonGuidedWalk)
    assert len(walk.features()[0]) == len(FEATURES)


UNIFORM_WEIGHTS = [0.0] * 7


@pytest.mark.parametrize("seed", range(1, 4))
def test_every_visited_scheme_is_valid(seed):
    walk = PythonGuidedWalk(naive_masks(2, 2, 3), UNIFORM_WEIGHTS, seed)
    for _ in range(20):
        walk.run(10, 0)
        assert verify(from_masks(walk.current, Format(2, 2, 3))).rank == walk.rank


def test_the_flips_of_the_naive_scheme_are_pairs_that_share_a_factor():
    walk = PythonGuidedWalk(naive_masks(2, 2, 2), UNIFORM_WEIGHTS, 1)
    assert len(walk.features()) == 3 * 4 * 2  # each of 12 entries is in two products; both orders count


def test_the_feature_undoes_last_marks_the_reverse_flip():
    start = naive_masks(2, 2, 2)
    walk = PythonGuidedWalk(start, UNIFORM_WEIGHTS, 1)
    assert not any(features[5] for features in walk.features())
    walk.take(3)
    assert walk.current != start
    backs = [place for place, features in enumerate(walk.features()) if features[5]]
    assert len(backs) == 1
    assert walk.features()[backs[0]][6] == 0.25  # the start was seen once, of four times that count
    walk.take(backs[0])
    assert walk.current == start


def test_the_feature_reduces_rank_marks_reductions():
    rows = [[1, 2, 4], [1, 2, 8], [2, 1, 1]]  # the first two are one product
    walk = PythonGuidedWalk(rows, UNIFORM_WEIGHTS, 1)
    falling = [place for place, features in enumerate(walk.features()) if features[0]]
    walk.take(falling[0])
    assert walk.rank == 2


def test_a_large_weight_on_reductions_takes_them_first():
    rows = [[1, 2, 4], [1, 2, 8], [2, 1, 1], [2, 4, 16]]
    walk = PythonGuidedWalk(rows, [50.0, 0, 0, 0, 0, 0, 0], 9)
    assert walk.run(10, 3) == 1
    assert walk.rank == 3


def test_a_walk_without_flips_ends():
    walk = PythonGuidedWalk([[1, 2, 4], [2, 4, 8]], UNIFORM_WEIGHTS, 1)
    assert walk.run(10, 0) == 0


def test_a_flip_index_out_of_range_is_refused():
    with pytest.raises(IndexError):
        PythonGuidedWalk(naive_masks(2, 2, 2), UNIFORM_WEIGHTS, 1).take(24)
