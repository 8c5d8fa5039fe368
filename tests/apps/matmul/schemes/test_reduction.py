"""Rows are made redundant by the definition, and the verified rank must come back."""

from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.reduction import reduce_rows
from palaestra.apps.matmul.schemes.rings import convert
from palaestra.apps.matmul.schemes.verification import verify


def split(claim, at, parts):
    """The scheme with its first row replaced by rows whose factor `at` are the parts, which sum to it."""
    tables = []
    for k, factor in enumerate(claim.factors):
        rows = np.array(parts) if k == at else np.repeat(factor[:1], len(parts), axis=0)
        tables.append(np.concatenate([rows, factor[1:]]))
    return replace(claim, field=Field.Z, u=tables[0], v=tables[1], w=tables[2])


@pytest.mark.parametrize("at", range(3))
def test_split_rows_are_merged_again(at, strassen):
    row = strassen.factors[at][0]
    extra = np.array([1, 2, 0, -1])
    heavier = split(strassen, at, [row - extra, extra])
    assert verify(heavier).rank == 8
    assert verify(reduce_rows(heavier)).rank == 7


def test_a_combination_of_several_rows_is_removed(strassen):
    """x shared by three rows with y3 = y1 + 2 y2: the third goes into the other two."""
    u, v, w = (factor.copy() for factor in strassen.factors)
    one, two = np.array([1, 0, 1, 0]), np.array([0, 1, 1, 0])
    rows_v = [one, two, one + 2 * two, -one, -two, -(one + 2 * two)]
    z = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]] * 2)
    extra = (np.repeat(u[:1], 6, axis=0), np.array(rows_v), z)
    tables = [np.concatenate([factor, more]) for factor, more in zip((u, v, w), extra, strict=True)]
    claim = replace(strassen, field=Field.Z, u=tables[0], v=tables[1], w=tables[2])
    assert verify(claim).rank == 13
    assert verify(reduce_rows(claim)).rank == 7


@pytest.mark.parametrize("field", [Field.GF2, Field.Z3, Field.Q])
def test_rows_are_reduced_in_their_field(field, strassen):
    heavier = convert(split(strassen, 0, [strassen.u[0] - [0, 1, 1, 0], [0, 1, 1, 0]]), field)
    assert verify(heavier).rank == 8
    assert verify(reduce_rows(heavier)).rank == 7
