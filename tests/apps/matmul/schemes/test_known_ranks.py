from dataclasses import replace

import pytest

from palaestra.apps.matmul.schemes.composition import join_schemes
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization, parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.known_ranks import (
    Comparison,
    as_of,
    compare_with_known,
    known_additions,
    known_formats,
    known_rank,
)
from palaestra.apps.matmul.schemes.straight_line import count_additions
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.reduce_additions import minimize_additions


def test_ranks_are_compared_within_a_field():
    ranks = {field: known_rank(Format(4, 4, 4), field) for field in Field}
    assert ranks == {
        Field.GF2: 47,
        Field.Z3: 48,
        Field.ZT: 49,
        Field.Z: 49,
        Field.Q: 48,
        Field.ZI: 49,
        Field.QI: 48,
    }


def test_every_format_up_to_8x8x8_is_known():
    sides = [(n, m, p) for n in range(2, 9) for m in range(n, 9) for p in range(m, 9)]
    assert all(known_rank(Format(*each), Field.ZT) for each in sides)


@pytest.mark.parametrize(("columns", "additions"), [(3, 17), (4, 26), (5, 28)])
def test_known_additions_are_at_most_those_of_composed_schemes(columns, additions, strassen):
    """2x2x2 twice shares its sums of A; a strip of one column takes two further additions."""
    block = minimize_additions(verify(strassen), 60.0, 1).claim
    whole = block
    while whole.format.columns < columns:
        left = columns - whole.format.columns
        part = block if left >= 2 else naive_factorization(Format(2, 2, 1), Field.ZT)
        whole = join_schemes(whole, part, "columns")
    assert verify(whole).rank == known_rank(whole.format, Field.ZT)
    assert count_additions(whole, 24).eliminated == additions
    assert known_additions(whole.format, Field.ZT) <= additions


def test_the_order_of_sides_does_not_matter():
    assert known_rank(Format(5, 3, 4), Field.Z) == known_rank(Format(3, 4, 5), Field.Z) == 47


@pytest.mark.parametrize("name", known_formats())
def test_ranks_of_the_table_are_consistent(name):
    """Ranks do not increase from zt to z to q, and are at most naive."""
    format_ = parse_format(name)
    q, z, zt = (known_rank(format_, field) for field in (Field.Q, Field.Z, Field.ZT))
    assert format_ == format_.ascending
    assert q <= z <= zt < format_.naive_rank
    assert known_rank(format_, Field.GF2) <= z  # integer schemes are also valid modulo 2
    assert q <= known_rank(format_, Field.Z3) <= z  # the table has only schemes over q that hold modulo 3


def test_a_verified_scheme_is_compared(strassen):
    assert compare_with_known(verify(strassen)).comparison is Comparison.MATCHES
    assert compare_with_known(verify(naive_factorization(Format(2, 2, 2), Field.GF2))).comparison is Comparison.ABOVE
    assert compare_with_known(verify(naive_factorization(Format(1, 1, 7), Field.Z))).comparison is Comparison.UNKNOWN


def test_a_rank_lower_than_known_is_below(strassen, monkeypatch):
    monkeypatch.setattr("palaestra.apps.matmul.schemes.known_ranks.known_rank", lambda _format, _field: 8)
    place = compare_with_known(verify(replace(strassen)))
    assert (place.comparison, place.known, place.as_of) == (Comparison.BELOW, 8, as_of())
