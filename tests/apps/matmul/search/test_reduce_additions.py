import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.straight_line import count_additions
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search import reduce_additions
from palaestra.apps.matmul.search.reduce_additions import find_fewest_additions, minimize_additions


def test_strassen_is_reduced_to_15_additions(strassen):
    light = minimize_additions(verify(strassen), 60.0, 1)
    assert (light.rank, light.field) == (7, Field.ZT)
    assert count_additions(light.claim, 24).eliminated == 15


def test_without_time_the_scheme_is_unchanged(strassen):
    claim = minimize_additions(verify(strassen), 0.0, 1).claim
    assert all((one == other).all() for one, other in zip(claim.factors, strassen.factors, strict=True))


def test_elementary_basis_changes_preserve_validity(strassen):
    rng = reduce_additions.random.Random(1)
    claim = strassen
    for _ in range(20):
        other = reduce_additions._change_one_basis(claim, rng)
        claim = other if other.largest_coefficient <= 1 else claim
        assert verify(claim).rank == 7
    assert any((one != other).any() for one, other in zip(claim.factors, strassen.factors, strict=True))


def test_a_tensor_product_with_fewer_additions_is_used(strassen, monkeypatch):
    monkeypatch.setattr(reduce_additions, "MANY_TRIES", 1)
    heavy = verify(reduce_additions.find_tensor_products(Format(4, 4, 4), [strassen])[0][0])
    winograd = minimize_additions(verify(strassen), 60.0, 1)
    light, parents = find_fewest_additions(heavy, [("mark", winograd)], 0.0, 1)
    assert parents == ("mark",)
    assert (light.rank, str(light.format)) == (49, "4x4x4")
    assert count_additions(light.claim, 1).eliminated <= 180


def test_schemes_over_other_fields_are_unchanged(strassen_bits):
    proved = verify(strassen_bits)
    assert minimize_additions(proved, 1.0, 1) is proved
    assert find_fewest_additions(proved, [], 1.0, 1) == (proved, ())


@pytest.mark.parametrize("seed", [1, 2])
def test_annealing_preserves_validity_and_rank(strassen, seed):
    wide = reduce_additions.find_tensor_products(Format(4, 4, 4), [strassen])[0][0]
    cool = reduce_additions._anneal(wide, seed)
    assert verify(cool).rank <= 49
    assert sum(map(np.count_nonzero, cool.factors)) <= sum(map(np.count_nonzero, wide.factors))
