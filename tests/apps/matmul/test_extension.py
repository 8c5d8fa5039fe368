from dataclasses import replace

import pytest

from palaestra.apps.matmul.extension import best_start, join
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.verification import verify
from palaestra.contracts.errors import UsageError


@pytest.mark.parametrize(
    ("side", "strip", "whole"),
    [("rows", (1, 2, 2), (3, 2, 2)), ("inner", (2, 1, 2), (2, 3, 2)), ("columns", (2, 2, 3), (2, 2, 5))],
)
def test_two_parts_make_a_scheme_of_the_whole(side, strip, whole, strassen):
    other = schoolbook(Format(*strip), Field.ZT)
    proved = verify(join(strassen, other, side))
    assert proved.format == Format(*whole)
    assert proved.rank == 7 + other.rank


def test_parts_that_do_not_fit_are_refused(strassen, strassen_bits):
    with pytest.raises(UsageError, match="do not join"):
        join(strassen, schoolbook(Format(1, 3, 2), Field.ZT), "rows")
    with pytest.raises(UsageError, match="do not join"):
        join(strassen, strassen_bits, "rows")


@pytest.mark.parametrize(
    ("sides", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 17), ((4, 4, 4), 56), ((1, 2, 2), 4)]
)
def test_strassen_is_used_wherever_it_fits(sides, rank, strassen):
    """4x4x4 from eight blocks of 2x2x2, joined by the schoolbook: 8 * 7."""
    start = best_start(Format(*sides), [("strassens", verify(strassen))])
    assert (start.scheme.rank, start.scheme.field) == (rank, Field.GF2)
    assert start.parents == (("strassens",) if rank != 4 else ())


def test_a_scheme_serves_all_orders_of_its_sides(strassen):
    joined = verify(join(strassen, schoolbook(Format(2, 2, 1), Field.ZT), "columns"))
    assert joined.rank == 11
    for sides in ((2, 2, 3), (2, 3, 2), (3, 2, 2)):
        assert best_start(Format(*sides), [("it", joined)]).parents == ("it",)


def test_nothing_known_is_the_schoolbook():
    assert best_start(Format(2, 3, 2), []).scheme.rank == 12


def test_fractions_are_passed_over(strassen):
    halves = replace(strassen, field=Field.Q, u=strassen.u * 2, denominators=(2, 1, 1))
    assert best_start(Format(2, 2, 2), [("halves", verify(halves))]).scheme.rank == 8
