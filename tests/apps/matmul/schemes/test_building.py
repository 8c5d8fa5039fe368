from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.building import build_best_start
from palaestra.apps.matmul.schemes.composition import join_schemes
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify


@pytest.mark.parametrize(
    ("sides", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 17), ((4, 4, 4), 49), ((1, 2, 2), 4)]
)
def test_known_schemes_are_used_wherever_they_fit(sides, rank, strassen):
    """4x4x4 as the product of 2x2x2 with itself: 7 * 7."""
    start = build_best_start(Format(*sides), Field.GF2, [("strassens", verify(strassen))])
    assert (start.scheme.rank, start.scheme.field) == (rank, Field.GF2)
    assert start.parents == (("strassens",) if rank != 4 else ())


def test_a_scheme_serves_all_orders_of_its_sides(strassen):
    joined = verify(join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns"))
    assert joined.rank == 11
    for sides in ((2, 2, 3), (2, 3, 2), (3, 2, 2)):
        assert build_best_start(Format(*sides), Field.GF2, [("it", joined)]).parents == ("it",)


def test_without_known_schemes_the_start_is_naive():
    assert build_best_start(Format(2, 3, 2), Field.GF2, []).scheme.rank == 12


def test_only_schemes_valid_over_the_field_are_used(strassen):
    base, inverse = np.array([[1, 2], [0, 1]]), np.array([[1, -2], [0, 1]])
    large = replace(
        strassen,
        field=Field.Z,
        u=(base @ strassen.u.reshape(-1, 2, 2)).reshape(-1, 4),
        w=(inverse.T @ strassen.w.reshape(-1, 2, 2)).reshape(-1, 4),
    )
    known = [("large", verify(large))]
    assert large.largest_coefficient > 1
    ranks = {
        field: build_best_start(Format(2, 2, 2), field, known).scheme.rank for field in (Field.GF2, Field.ZT, Field.Z)
    }
    assert ranks == {Field.GF2: 7, Field.ZT: 8, Field.Z: 7}
    assert build_best_start(Format(2, 2, 4), Field.ZT, [*known, ("small", verify(strassen))]).scheme.rank == 14


def test_only_schemes_that_hold_over_the_field_are_used(strassen, strassen_bits):
    scaled = replace(strassen, field=Field.Q, u=strassen.u * 2, denominators=(2, 1, 1))  # holds modulo 2 as well
    assert build_best_start(Format(2, 2, 2), Field.GF2, [("scaled", verify(scaled))]).scheme.rank == 7
    assert build_best_start(Format(2, 2, 2), Field.Z, [("bits", verify(strassen_bits))]).scheme.rank == 8


def test_projections_of_larger_schemes_are_used(strassen_bits):
    larger = verify(join_schemes(strassen_bits, naive_factorization(Format(2, 2, 2), Field.GF2), "columns"))
    for sides in set(permutations((2, 2, 3))):
        start = build_best_start(Format(*sides), Field.GF2, [("larger", larger)])
        assert start.parents == ("larger",)
        assert start.scheme.rank == 11


def test_products_and_joins_are_combined(strassen):
    """5x4x4: the product of 2x2x2 with itself, and a naive strip; 6x4x4 gets a second product in the strip."""
    known = [("strassens", verify(strassen))]
    assert build_best_start(Format(5, 4, 4), Field.ZT, known).scheme.rank == 49 + 16
    assert build_best_start(Format(4, 6, 4), Field.ZT, known).scheme.rank == 7 * 11
    assert build_best_start(Format(8, 8, 8), Field.GF2, known).scheme.rank == 343
