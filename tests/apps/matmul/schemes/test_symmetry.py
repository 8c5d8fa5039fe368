import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.factorization import Factorization, Format, schoolbook
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.symmetry import are_one
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import Rules, advance, begin

_spec = importlib.util.spec_from_file_location("views", Path(__file__).with_name("test_fingerprint.py"))
views = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(views)


@pytest.mark.parametrize("which", ["strassen", "strassen_bits"])
def test_a_scheme_is_recognised_from_every_side(which, request):
    claim = request.getfixturevalue(which)
    assert all(are_one(verify(claim), verify(view)) for view in views.other_views(claim))


def test_signs_within_a_row_do_not_matter(strassen):
    flipped = replace(strassen, u=-strassen.u, w=-strassen.w)
    assert are_one(verify(strassen), verify(flipped))


def test_other_ranks_fields_and_formats_are_others(strassen, strassen_bits):
    school = schoolbook(Format(2, 2, 2), Field.ZT)
    assert not are_one(verify(strassen), verify(school))
    assert not are_one(verify(strassen), verify(strassen_bits))
    assert not are_one(verify(school), verify(schoolbook(Format(1, 2, 4), Field.ZT)))


def test_every_scheme_of_seven_rows_is_strassens(strassen_bits):
    """De Groote's theorem; the search knows nothing of it."""
    for seed in (1, 2, 3):
        search = begin(Format(2, 2, 2), seed, 1)
        found = advance(search, Rules(target=7, round_flips=20_000, plus_period=500))
        assert found.best_rank == 7
        assert are_one(verify(from_masks(found.best, found.format)), verify(strassen_bits))


def test_two_schemes_of_eight_rows_that_no_symmetry_joins_are_told_apart(strassen_bits):
    split = [strassen_bits.u.copy(), *strassen_bits.factors[1:]]
    split = [np.concatenate([factor, factor[:1]]) for factor in split]
    split[0][0], split[0][7] = [1, 0, 0, 0], [0, 0, 0, 1]  # the first row's 1001 in two
    eight = verify(Factorization(Format(2, 2, 2), Field.GF2, *split))
    school = verify(schoolbook(Format(2, 2, 2), Field.GF2))
    assert eight.rank == school.rank
    assert not are_one(eight, school)
    assert are_one(eight, verify(views.transposed(eight.claim)))
