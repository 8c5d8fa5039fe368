from __future__ import annotations

from dataclasses import replace

import pytest

from palaestra.apps.matmul.schemes.bit_masks import (
    check_fits_word,
    cyclic_rank,
    decode_claim,
    encode_claim,
    expand_cyclic,
    from_masks,
    from_signed_masks,
    is_cube,
    naive_cyclic_masks,
    supports_cyclic_search,
    to_masks,
    to_signed_masks,
)
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.rings import convert
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_walk import IS_COMPILED, resume_cyclic_walk
from palaestra.core.errors import UsageError


def test_masks_round_trip(strassen_bits):
    back = from_masks(to_masks(strassen_bits), strassen_bits.format)
    assert all((one == other).all() for one, other in zip(back.factors, strassen_bits.factors, strict=True))


def test_entry_k_is_bit_k(strassen_bits):
    assert to_masks(strassen_bits)[0] == [0b1001, 0b1001, 0b1001]


def test_all_sixty_four_bits_are_used():
    masks = to_masks(naive_factorization(Format(8, 8, 8), Field.GF2))
    assert max(max(row) for row in masks) == 1 << 63
    assert from_masks(masks, Format(8, 8, 8)).rank == 512


def test_masks_reach_256_entries():
    masks = to_masks(naive_factorization(Format(16, 1, 16), Field.GF2))
    assert max(max(row) for row in masks) == 1 << 255
    assert from_masks(masks, Format(16, 1, 16)).rank == 256


@pytest.mark.parametrize("field", [Field.GF2, Field.Z3, Field.ZT])
def test_every_walked_ring_round_trips(field, strassen):
    claim = convert(strassen, field)
    back = decode_claim(encode_claim(claim), claim.format, field)
    assert back.field is field
    assert all((one == other).all() for one, other in zip(back.factors, claim.factors, strict=True))


def test_a_guided_walk_is_limited_to_one_word():
    with pytest.raises(UsageError, match="9x8x8"):
        check_fits_word(Format(9, 8, 8))


def test_signed_masks_round_trip(strassen):
    masks = to_signed_masks(strassen)
    assert masks[5] == [0b0100, 0b0001, 0b0011, 0, 0b1000, 0]  # (a21 - a11)(b11 + b12) to c22
    back = from_signed_masks(masks, strassen.format)
    assert all((one == other).all() for one, other in zip(back.factors, strassen.factors, strict=True))


def test_larger_coefficients_are_refused(strassen):
    with pytest.raises(UsageError, match="Coefficient 2"):
        to_signed_masks(replace(strassen, field=Field.Z, u=2 * strassen.u))


needs_compiler = pytest.mark.skipif(not IS_COMPILED, reason="installed without a compiler")


@pytest.mark.parametrize("side", [2, 3, 5])
def test_the_naive_scheme_is_cyclic_symmetric(side):
    masks = naive_cyclic_masks(side)
    assert sum(map(is_cube, masks)) == side
    assert cyclic_rank(masks) == side**3
    school = to_masks(naive_factorization(Format(side, side, side), Field.GF2))
    assert sorted(expand_cyclic(masks, side)) == sorted(school)


def test_only_large_square_formats_support_cyclic_search():
    formats = [Format(5, 5, 5), Format(6, 6, 6), Format(4, 5, 5), Format(4, 4, 4)]
    assert [supports_cyclic_search(one) for one in formats] == [True, True, False, False]


@needs_compiler
@pytest.mark.parametrize(("side", "rank"), [(2, 7), (3, 23)])
def test_a_cyclic_walk_reaches_the_known_rank_and_stays_valid(side, rank):
    rows = naive_cyclic_masks(side)
    walk = resume_cyclic_walk(rows, rows, 1, 0)
    for _ in range(400):
        walk.run(20_000, 300, 6, rank)
        for masks in (walk.current, walk.best):
            assert verify(from_masks(expand_cyclic(masks, side), Format(side, side, side))).rank == cyclic_rank(masks)
        if walk.best_rank == rank:
            break
    assert walk.best_rank == cyclic_rank(walk.best) == rank


@needs_compiler
def test_a_resumed_cyclic_walk_continues_exactly():
    rows = naive_cyclic_masks(3)
    through, pieces = (resume_cyclic_walk(rows, rows, 5, 0) for _ in range(2))
    for _ in range(5):
        through.run(500, 100, 6, 0)
        pieces.run(500, 100, 6, 0)
        pieces = resume_cyclic_walk(pieces.current, pieces.best, pieces.rng_state, pieces.since_reduction)
    assert (pieces.current, pieces.best, pieces.rng_state) == (through.current, through.best, through.rng_state)


@needs_compiler
def test_a_cube_counts_as_one_row():
    """Two rows that become a cube: (a, a, b) and (a, a, a + b) are the cube of a."""
    rows = [[1, 1, 2], [1, 1, 3]]
    walk = resume_cyclic_walk(rows, rows, 1, 0)
    walk.run(50, 1000, 0, 1)
    assert walk.best == [[1, 1, 1]]


@needs_compiler
def test_a_walk_without_equal_factors_ends():
    assert resume_cyclic_walk([[1, 2, 4]], [[1, 2, 4]], 1, 0).run(100, 10, 0, 0) == 1
