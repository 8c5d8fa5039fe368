from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.agent.census import census, outer_bits, profiles, views_of
from palaestra.apps.matmul.agent.demonstrations import (
    TrainingExamples,
    concatenate,
    naive_rank_examples,
    sample_naive_rank_schemes,
    sample_synthetic,
    target_bits,
    target_census,
    without_target,
)
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.transformations import change_bases, random_basis
from palaestra.apps.matmul.schemes.verification import verify

SMALL = Format(2, 2, 2)


def test_an_example_of_one_product_is_solved_by_its_move():
    examples = sample_synthetic(SMALL, 200, 7, np.random.default_rng(1))
    single = examples.remaining == 1
    assert single.sum() > 10
    left = examples.tensors ^ outer_bits(examples.moves, SMALL.sizes)
    assert not left[single].any()
    assert examples.has_policy_target.all()


def test_a_move_reduces_the_number_of_products_by_one():
    examples = sample_synthetic(SMALL, 400, 3, np.random.default_rng(2))
    left = examples.tensors ^ outer_bits(examples.moves, SMALL.sizes)
    profile = profiles(left, views_of(SMALL))[0].sum(axis=1)
    assert (profile <= 8 * (examples.remaining - 1)).all()


def test_the_target_is_dropped_in_every_basis():
    rng = np.random.default_rng(3)
    target = target_bits(SMALL)
    moved = [
        change_bases(target.astype(np.int64), tuple(random_basis(4, Field.GF2, rng) for _ in range(3)), Field.GF2)
        for _ in range(20)
    ]
    planted = np.array([target, *moved], np.uint8)
    count = len(planted)
    examples = TrainingExamples(planted, np.ones((count, 3), np.int64), np.full(count, 7), np.ones(count, bool))
    assert len(without_target(examples, views_of(SMALL), target_census(SMALL))) == 0


def test_no_synthetic_example_has_the_census_of_the_target(strassen_bits):
    rows = np.array(to_masks(strassen_bits), np.int64)
    whole = np.bitwise_xor.reduce(outer_bits(rows, SMALL.sizes), axis=0)
    examples = sample_synthetic(SMALL, 2_000, 7, np.random.default_rng(4))
    views = views_of(SMALL)
    seen = census(profiles(examples.tensors, views), views)
    assert not (seen == census(profiles(whole[None], views), views)).all(axis=1).any()


def test_examples_are_concatenated_and_selected_by_row():
    first, second = (sample_synthetic(SMALL, 5, 4, np.random.default_rng(seed)) for seed in (1, 2))
    both = concatenate([first, second])
    assert len(both) == len(first) + len(second)
    last = both.select(slice(-1, None))
    assert (last.tensors == second.tensors[-1:]).all()
    assert (last.moves == second.moves[-1:]).all()


@pytest.mark.parametrize("format_", [SMALL, Format(2, 2, 3)])
def test_all_sampled_schemes_are_valid_and_of_naive_rank(format_):
    schemes = sample_naive_rank_schemes(format_, 12, np.random.default_rng(1))
    assert {verify(from_masks(scheme.tolist(), format_)).rank for scheme in schemes} == {format_.naive_rank}
    assert len({str(sorted(scheme.tolist())) for scheme in schemes}) > 6


def test_an_example_is_a_subset_of_rows_with_one_of_them_as_move():
    rng = np.random.default_rng(2)
    schemes = sample_naive_rank_schemes(SMALL, 5, rng)
    examples = naive_rank_examples(schemes, SMALL.sizes, 200, rng)
    rows = {tuple(row) for scheme in schemes.tolist() for row in scheme}
    assert all(tuple(move) in rows for move in examples.moves.tolist())
    assert (examples.tensors[examples.remaining == 8] == target_bits(SMALL)).all()
    left = examples.tensors ^ outer_bits(examples.moves, SMALL.sizes)
    assert not left[examples.remaining == 1].any()
    assert set(examples.remaining.tolist()) == set(range(1, 9))


def test_the_same_seed_samples_the_same_schemes():
    first, again = (sample_naive_rank_schemes(SMALL, 4, np.random.default_rng(3)) for _ in range(2))
    assert (first == again).all()
