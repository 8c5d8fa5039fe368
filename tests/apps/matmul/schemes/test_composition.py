from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.composition import (
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


def test_over_the_integers_projection_removes_an_index(strassen):
    larger = join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns")
    assert (verify(project(larger, 2)).rank, project(larger, 2).field) == (7, Field.ZT)
    for at in range(3):
        assert verify(project(strassen, at)).rank <= 6


def test_a_side_of_one_cannot_be_projected():
    with pytest.raises(UsageError, match="side of 1"):
        project(naive_factorization(Format(1, 2, 2), Field.GF2), 0)
