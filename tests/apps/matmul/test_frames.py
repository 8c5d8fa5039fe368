import numpy as np

from palaestra.apps.matmul.bases import random_base
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.frames import normal_rows
from palaestra.apps.matmul.trace_form import trace_form

PRIME = 2_147_483_647
ALL = list(range(7))


def triples(factors, prime):
    return [tuple((part % prime).tolist() for part in row) for row in zip(*factors, strict=True)]


def rebased(claim, seed):
    dice = np.random.default_rng(seed)
    factors = trace_form(claim)
    bases = [random_base(side, claim.field, dice) for side in claim.format.sides]
    return [bases[k].matrix @ factors[k] @ bases[(k + 1) % 3].inverse for k in range(3)]


def test_rows_look_the_same_whatever_bases_they_were_given_in(strassen, strassen_bits):
    for claim, prime in ((strassen, PRIME), (strassen_bits, 2)):
        usual = normal_rows(triples(trace_form(claim), prime), ALL, (2, 2, 2), prime)
        others = [normal_rows(triples(rebased(claim, seed), prime), ALL, (2, 2, 2), prime) for seed in range(4)]
        assert usual is not None
        assert others == [usual] * 4


def test_scalars_within_a_row_do_not_matter(strassen):
    x, y, z = trace_form(strassen)
    scaled = [3 * x, 5 * y, z * pow(15, -1, PRIME)]
    sides = (2, 2, 2)
    assert normal_rows(triples(scaled, PRIME), ALL, sides, PRIME) == normal_rows(
        triples((x, y, z), PRIME), ALL, sides, PRIME
    )


def test_the_coordinates_depend_on_who_is_asked(strassen_bits):
    assert strassen_bits.field is Field.GF2
    rows = triples(trace_form(strassen_bits), 2)
    first, second = (normal_rows(rows, order, (2, 2, 2), 2) for order in (ALL, ALL[::-1]))
    assert first != second


def test_rows_without_a_factor_of_rank_one_give_no_bases(strassen_bits):
    """The first of Strassen's rows has three invertible factors."""
    assert normal_rows(triples(trace_form(strassen_bits), 2), [0], (2, 2, 2), 2) is None
