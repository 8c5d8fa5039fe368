from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.composition import (
    build_best_start,
    find_tensor_products,
    join_schemes,
    project,
    tensor_product,
)
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import SearchSettings, advance_search, start_search
from palaestra.core.errors import UsageError


@pytest.mark.parametrize(
    ("side", "strip", "whole"),
    [("rows", (1, 2, 2), (3, 2, 2)), ("inner", (2, 1, 2), (2, 3, 2)), ("columns", (2, 2, 3), (2, 2, 5))],
)
def test_joined_schemes_are_valid(side, strip, whole, strassen):
    other = naive_factorization(Format(*strip), Field.ZT)
    proved = verify(join_schemes(strassen, other, side))
    assert proved.format == Format(*whole)
    assert proved.rank == 7 + other.rank


def test_mismatched_schemes_cannot_be_joined(strassen, strassen_bits):
    with pytest.raises(UsageError, match="Cannot join"):
        join_schemes(strassen, naive_factorization(Format(1, 3, 2), Field.ZT), "rows")
    with pytest.raises(UsageError, match="Cannot join"):
        join_schemes(strassen, strassen_bits, "rows")


@pytest.mark.parametrize(
    ("sides", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 17), ((4, 4, 4), 56), ((1, 2, 2), 4)]
)
def test_known_schemes_are_used_wherever_they_fit(sides, rank, strassen):
    """4x4x4 from eight blocks of 2x2x2, combined by the naive scheme: 8 * 7."""
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


def test_a_tensor_product_is_valid(strassen):
    twice = tensor_product(strassen, strassen)
    assert (verify(twice).rank, str(twice.format)) == (49, "4x4x4")
    wide = tensor_product(strassen, naive_factorization(Format(1, 2, 3), Field.ZT))
    assert (verify(wide).rank, str(wide.format)) == (42, "2x4x6")
    with pytest.raises(UsageError, match="Cannot multiply"):
        tensor_product(strassen, naive_factorization(Format(1, 2, 3), Field.Z))


def test_tensor_products_are_found_for_any_order_of_sides(strassen):
    strip = naive_factorization(Format(1, 2, 3), Field.ZT)
    found = find_tensor_products(Format(6, 2, 4), [strassen, strip])
    assert {(i, j) for _, i, j in found} == {(0, 1), (1, 0)}
    assert {verify(claim).rank for claim, _, _ in found} == {42}
    assert find_tensor_products(Format(5, 5, 5), [strassen]) == []


@pytest.mark.parametrize("sides", [(2, 3, 4), (3, 3, 3)])
def test_projecting_a_naive_scheme_gives_a_naive_scheme(sides):
    for at in range(3):
        smaller = [side - (k == at) for k, side in enumerate(sides)]
        made = verify(project(naive_factorization(Format(*sides), Field.GF2), at))
        assert (made.format, made.rank) == (Format(*smaller), int(np.prod(smaller)))


def test_projection_inverts_a_join(strassen_bits):
    """For every side the projection finds the cut that removes the strip."""
    for at, side in enumerate(("rows", "inner", "columns")):
        strip = [1 if k == at else 2 for k in range(3)]
        whole = join_schemes(strassen_bits, naive_factorization(Format(*strip), Field.GF2), side)
        assert verify(project(whole, at)).rank == 7


def test_projection_inverts_a_join_in_any_basis():
    """A found scheme has arbitrary bases: a projection of 3x3x3 with 23 rows is valid and smaller."""
    search = start_search(Format(3, 3, 3), 1, 1)
    while search.best_rank > 23:
        search = advance_search(search, SearchSettings(target=23, round_flips=100_000, plus_period=5_000))
    claim = from_masks(search.best, search.format)
    for at in range(3):
        made = verify(project(claim, at))
        assert sorted(made.format.sides) == [2, 3, 3]
        assert made.rank <= 18


def test_projections_of_larger_schemes_are_used(strassen_bits):
    larger = verify(join_schemes(strassen_bits, naive_factorization(Format(2, 2, 2), Field.GF2), "columns"))
    for sides in set(permutations((2, 2, 3))):
        start = build_best_start(Format(*sides), Field.GF2, [("larger", larger)])
        assert start.parents == ("larger",)
        assert start.scheme.rank == 11


def test_over_the_integers_projection_removes_an_index(strassen):
    larger = join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns")
    assert (verify(project(larger, 2)).rank, project(larger, 2).field) == (7, Field.ZT)
    for at in range(3):
        assert verify(project(strassen, at)).rank <= 6


def test_a_side_of_one_cannot_be_projected():
    with pytest.raises(UsageError, match="side of 1"):
        project(naive_factorization(Format(1, 2, 2), Field.GF2), 0)
