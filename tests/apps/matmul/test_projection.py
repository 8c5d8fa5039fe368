from itertools import permutations

import numpy as np
import pytest

from palaestra.apps.matmul.extension import best_start, join
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.masks import from_masks
from palaestra.apps.matmul.projection import projected
from palaestra.apps.matmul.search import Rules, advance, begin
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import UsageError


@pytest.mark.parametrize("sides", [(2, 3, 4), (3, 3, 3)])
def test_the_schoolbooks_scheme_becomes_that_of_the_smaller_format(sides):
    for at in range(3):
        smaller = [side - (k == at) for k, side in enumerate(sides)]
        made = verify(projected(schoolbook(Format(*sides), Field.GF2), at))
        assert (made.format, made.rank) == (Format(*smaller), int(np.prod(smaller)))


def test_what_was_joined_is_found_again(strassen_bits):
    """Whichever side the strip was added to, the cut that takes it away is found."""
    for at, side in enumerate(("rows", "inner", "columns")):
        strip = [1 if k == at else 2 for k in range(3)]
        whole = join(strassen_bits, schoolbook(Format(*strip), Field.GF2), side)
        assert verify(projected(whole, at)).rank == 7


def test_it_is_found_from_other_bases_too():
    """A search leaves a scheme in bases of its own: 3x3x3 with 23 rows, cut down, is proved, and smaller."""
    search = begin(Format(3, 3, 3), 1, 1)
    while search.best_rank > 23:
        search = advance(search, Rules(target=23, round_flips=100_000, plus_period=5_000))
    claim = from_masks(search.best, search.format)
    for at in range(3):
        made = verify(projected(claim, at))
        assert sorted(made.format.sides) == [2, 3, 3]
        assert made.rank <= 18


def test_a_start_from_discoveries_uses_larger_ones(strassen_bits):
    larger = verify(join(strassen_bits, schoolbook(Format(2, 2, 2), Field.GF2), "columns"))
    for sides in set(permutations((2, 2, 3))):
        start = best_start(Format(*sides), Field.GF2, [("larger", larger)])
        assert start.parents == ("larger",)
        assert start.scheme.rank == 11


def test_over_whole_numbers_one_index_is_left_out(strassen):
    larger = join(strassen, schoolbook(Format(2, 2, 1), Field.ZT), "columns")
    assert (verify(projected(larger, 2)).rank, projected(larger, 2).field) == (7, Field.ZT)
    for at in range(3):
        assert verify(projected(strassen, at)).rank <= 6


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(UsageError, match="side of 1"):
        projected(schoolbook(Format(1, 2, 2), Field.GF2), 0)
