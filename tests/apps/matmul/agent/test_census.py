import numpy as np
import pytest

from palaestra.apps.matmul.agent.census import (
    census,
    census_of_moves,
    outer_bits,
    profiles,
    ranks_of,
    unpacked,
    views_of,
)
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.fields import Field, matrix_rank
from palaestra.apps.matmul.schemes.transformations import change_bases, random_basis
from palaestra.apps.matmul.schemes.verification import product_tensor

SMALL, WIDE = Format(2, 2, 2), Format(2, 2, 3)


def drawn(format_, count, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (count, *format_.sizes), dtype=np.uint8)


def census_of(tensors, format_):
    views = views_of(format_)
    return census(profiles(tensors, views), views)


def test_ranks_match_elimination():
    matrices = np.random.default_rng(1).integers(0, 2, (50, 6, 5))
    rows = [(matrices[:, row] << np.arange(5)).sum(axis=1).astype(np.uint32) for row in range(6)]
    assert ranks_of(rows).tolist() == [matrix_rank(matrix.tolist(), 2) for matrix in matrices]


@pytest.mark.parametrize("format_", [SMALL, WIDE])
def test_a_profile_has_the_rank_of_every_contraction(format_):
    tensor, views = drawn(format_, 1)[0], views_of(format_)
    for axis, profile in enumerate(profiles(tensor[None], views)):
        for vector, rank in zip(views.directions[axis].tolist(), profile[0].tolist(), strict=True):
            bits = [vector >> place & 1 for place in range(format_.sizes[axis])]
            matrix = np.tensordot(bits, tensor.astype(int), axes=(0, axis)) % 2
            assert rank == matrix_rank(matrix.tolist(), 2)


def test_the_2x2x2_tensor_has_contractions_of_rank_2_and_4():
    axis_profiles = census_of(product_tensor(SMALL).astype(np.uint8)[None], SMALL)[0].reshape(3, 5)
    assert np.allclose(axis_profiles * 15, [[0, 0, 9, 0, 6]] * 3)  # nine singular 2x2 matrices, six that are not


@pytest.mark.parametrize("format_", [SMALL, WIDE])
def test_the_census_is_basis_independent_and_distinguishes_tensors(format_):
    rng = np.random.default_rng(3)
    tensors = drawn(format_, 5)
    for tensor in tensors:
        bases = tuple(random_basis(size, Field.GF2, rng) for size in format_.sizes)
        moved = change_bases(tensor.astype(np.int64), bases, Field.GF2).astype(np.uint8)
        assert (moved != tensor).any()
        assert (census_of(moved[None], format_) == census_of(tensor[None], format_)).all()
    assert len(np.unique(census_of(tensors, format_), axis=0)) == 5


@pytest.mark.parametrize("format_", [SMALL, WIDE])
def test_the_census_of_moves_matches_the_census_of_the_residuals(format_):
    tensor, views = drawn(format_, 1, 4)[0], views_of(format_)
    after, kinds = census_of_moves(tensor, views)
    rng = np.random.default_rng(5)
    moves = np.stack([rng.integers(1, 1 << size, 40) for size in format_.sizes], axis=1)
    left = tensor ^ outer_bits(moves, format_.sizes)
    places = np.ravel_multi_index((moves - 1).T, [(1 << size) - 1 for size in format_.sizes])
    assert np.allclose(after[kinds[places]], census_of(left, format_), atol=1e-6)
    assert len(np.unique(after, axis=0)) == len(after) < len(kinds)


def test_the_profile_of_a_sum_is_bounded_by_its_terms():
    moves = np.random.default_rng(6).integers(1, 16, (5, 3))
    tensor = np.bitwise_xor.reduce(outer_bits(moves, SMALL.sizes), axis=0)
    for profile in profiles(tensor[None], views_of(SMALL)):
        assert profile.sum() <= 5 * 8


def test_masks_are_unpacked_lowest_bit_first():
    assert unpacked(np.array([6]), 4).tolist() == [[0, 1, 1, 0]]


def test_large_axes_use_a_fixed_sample_of_directions():
    first, again = views_of(Format(3, 3, 3)), views_of(Format(3, 3, 3))
    assert [len(each) for each in first.directions] == [63, 63, 63]
    assert all((one == other).all() for one, other in zip(first.directions, again.directions, strict=True))
