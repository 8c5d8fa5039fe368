import numpy as np
import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization, with_tables
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.rings import convert
from palaestra.apps.matmul.schemes.transformations import from_trace_form, random_basis, trace_form
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import SearchSettings, advance_search, start_search
from palaestra.apps.matmul.search.lifting import lift, reconstruct_fraction, verify_fractions
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


@pytest.mark.parametrize("seed", range(4))
def test_schemes_over_z3_are_lifted(seed, strassen):
    """In random bases modulo 3 the signs are not those of an integer scheme any more."""
    rng = np.random.default_rng(seed)
    x, y, z = trace_form(strassen)
    bases = [random_basis(2, Field.ZT, rng) for _ in range(3)]
    x, y, z = (bases[at].matrix @ part @ bases[(at + 1) % 3].inverse for at, part in enumerate((x, y, z)))
    claim = convert(with_tables(strassen, from_trace_form(x, y, z), field=Field.Z), Field.Z3)
    lifted = lift(verify(claim), with_fractions=True)
    assert lifted is not None
    assert (lifted.rank, lifted.field.characteristic) == (7, 0)
    assert fingerprint(verify(convert(lifted.claim, Field.Z3))) == fingerprint(verify(claim))


@pytest.mark.parametrize(("top", "bottom"), [(1, 3), (-2, 7), (5, 1), (0, 1), (-1, 9), (31, 25)])
def test_fractions_are_reconstructed_from_their_residues(top, bottom):
    modulus = 2**20
    assert reconstruct_fraction(top * pow(bottom, -1, modulus) % modulus, modulus) == (top, bottom)


def test_a_scheme_with_thirds_is_restored_from_its_residues(strassen):
    """Residues modulo 2^20 of a scheme with thirds; the lifting's last step."""
    base, inverse = np.array([[1, 1], [-1, 2]]), np.array([[2, -1], [1, 1]])  # over 3
    u = (base @ strassen.u.reshape(-1, 2, 2)).reshape(-1, 4)
    w = (inverse.T @ strassen.w.reshape(-1, 2, 2)).reshape(-1, 4)
    modulus = 2**20
    residues = [u % modulus, strassen.v % modulus, w * pow(3, -1, modulus) % modulus]
    found = verify_fractions(strassen, residues, modulus)
    assert (found.field, found.rank) == (Field.Q, 7)
    residues[0][0, 0] += 1
    assert verify_fractions(strassen, residues, modulus) is None


def test_only_schemes_over_gf2_and_z3_can_be_lifted(strassen):
    with pytest.raises(UsageError, match="zt"):
        lift(verify(strassen))
