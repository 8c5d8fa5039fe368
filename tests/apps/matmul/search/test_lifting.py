import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import SearchSettings, advance_search, start_search
from palaestra.apps.matmul.search.lifting import lift
from palaestra.core.errors import UsageError


def test_lifting_strassen_restores_its_signs(strassen_bits):
    lifted = lift(verify(strassen_bits))
    assert lifted.field is Field.ZT
    assert lifted.rank == 7
    assert all((one % 2 == bits).all() for one, bits in zip(lifted.claim.factors, strassen_bits.factors, strict=True))


def test_a_scheme_without_signs_is_unchanged():
    naive_masks = naive_factorization(Format(2, 3, 2), Field.GF2)
    assert (lift(verify(naive_masks)).claim.u == naive_masks.u).all()


def test_a_found_scheme_of_rank_15_is_lifted():
    search = start_search(Format(2, 3, 3), 1, 1)
    while search.best_rank > 15:
        search = advance_search(search, SearchSettings(plus_period=2000, round_flips=50_000, target=15))
    lifted = lift(verify(from_masks(search.best, search.format)))
    assert lifted.rank == 15
    assert lifted.field in {Field.ZT, Field.Z}


def test_only_schemes_over_gf2_can_be_lifted(strassen):
    with pytest.raises(UsageError, match="zt"):
        lift(verify(strassen))
