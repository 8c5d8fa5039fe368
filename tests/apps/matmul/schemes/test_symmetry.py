import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palaestra.apps.matmul.schemes import symmetry
from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.symmetry import are_equivalent
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import SearchSettings, advance_search, start_search

_spec = importlib.util.spec_from_file_location("views", Path(__file__).with_name("test_fingerprint.py"))
views = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(views)


@pytest.mark.parametrize("which", ["strassen", "strassen_bits"])
def test_equivalent_schemes_are_recognized(which, request):
    claim = request.getfixturevalue(which)
    assert all(are_equivalent(verify(claim), verify(view)) for view in views.other_views(claim))


def test_signs_within_a_row_do_not_matter(strassen):
    flipped = replace(strassen, u=-strassen.u, w=-strassen.w)
    assert are_equivalent(verify(strassen), verify(flipped))


def test_schemes_of_other_ranks_fields_and_formats_are_not_equivalent(strassen, strassen_bits):
    school = naive_factorization(Format(2, 2, 2), Field.ZT)
    assert not are_equivalent(verify(strassen), verify(school))
    assert not are_equivalent(verify(strassen), verify(strassen_bits))
    assert not are_equivalent(verify(school), verify(naive_factorization(Format(1, 2, 4), Field.ZT)))


def test_all_2x2x2_schemes_of_rank_7_are_equivalent(strassen_bits):
    """De Groote's theorem, which the search does not use."""
    for seed in (1, 2, 3):
        search = start_search(Format(2, 2, 2), seed, 1)
        found = advance_search(search, SearchSettings(target=7, round_flips=20_000, plus_period=500))
        assert found.best_rank == 7
        assert are_equivalent(verify(from_masks(found.best, found.format)), verify(strassen_bits))


def test_inequivalent_schemes_of_rank_8_are_distinguished(strassen_bits):
    split = [strassen_bits.u.copy(), *strassen_bits.factors[1:]]
    split = [np.concatenate([factor, factor[:1]]) for factor in split]
    split[0][0], split[0][7] = [1, 0, 0, 0], [0, 0, 0, 1]  # the first row's 1001 in two
    eight = verify(Factorization(Format(2, 2, 2), Field.GF2, *split))
    school = verify(naive_factorization(Format(2, 2, 2), Field.GF2))
    assert eight.rank == school.rank
    assert not are_equivalent(eight, school)
    assert are_equivalent(eight, verify(views.transposed(eight.claim)))


def test_the_same_rows_in_another_order_and_scale_are_equivalent_at_once(strassen, monkeypatch):
    monkeypatch.setattr(symmetry, "MAX_STEPS", 0)  # no search
    order = [3, 1, 0, 2, 6, 5, 4]
    turned = replace(strassen, u=-strassen.u[order], v=strassen.v[order], w=-strassen.w[order])
    assert are_equivalent(verify(strassen), verify(turned))
