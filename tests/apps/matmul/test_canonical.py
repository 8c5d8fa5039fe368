"""Images are made from the definition of the symmetries; for 2x2x2 modulo 2 the whole group is gone through."""

from itertools import permutations, product

import numpy as np
import pytest

from palaestra.apps.matmul.bases import random_base
from palaestra.apps.matmul.canonical import canonical_form, canonical_word
from palaestra.apps.matmul.extension import multiplied
from palaestra.apps.matmul.factorization import Factorization, schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.lifting import lift
from palaestra.apps.matmul.masks import from_masks
from palaestra.apps.matmul.search import Rules, advance, begin
from palaestra.apps.matmul.symmetry import are_one
from palaestra.apps.matmul.trace_form import from_trace_form, trace_form, view
from palaestra.apps.matmul.verification import verify
from palaestra.apps.matmul.walks import resume_walk

TWO = Format(2, 2, 2)


def found(format_, rank, seed):
    search = begin(format_, seed, 1)
    while search.best_rank > rank:
        search = advance(search, Rules(target=rank, round_flips=100_000, plus_period=5_000))
    return verify(from_masks(search.best, format_))


def random_image(claim, dice):
    """Other bases, another order of the three factors and of the rows, and signs."""
    bases = [random_base(side, claim.field, dice) for side in claim.format.sides]
    factors = trace_form(claim)
    factors = [bases[k].matrix @ factors[k] @ bases[(k + 1) % 3].inverse for k in range(3)]
    factors = view(tuple(factors), list(permutations(range(3)))[dice.integers(6)])
    order = dice.permutation(claim.rank)
    u, v, w = from_trace_form(*(factor[order] for factor in factors))
    format_ = Format(*(factor.shape[1] for factor in factors))
    if claim.field is Field.GF2:
        return Factorization(format_, Field.GF2, u % 2, v % 2, w % 2)
    first, second = dice.choice((-1, 1), size=(2, claim.rank, 1))
    return Factorization(format_, Field.Z, u * first, v * second, w * first * second)


@pytest.mark.parametrize(("sides", "rank"), [((2, 2, 3), 11), ((2, 3, 3), 15), ((3, 3, 3), 23)])
def test_a_scheme_and_its_random_images_have_one_form(sides, rank):
    dice = np.random.default_rng(rank)
    plain = found(Format(*sides), rank, 1)
    for scheme in (plain, lift(plain)):
        images = [verify(random_image(scheme.claim, dice)) for _ in range(3)]
        assert {canonical_word(image) for image in images} == {canonical_word(scheme)}
        assert canonical_word(scheme)


def test_schemes_that_no_symmetry_joins_have_different_forms():
    first, second = (found(Format(3, 3, 3), 23, seed) for seed in (0, 1))
    assert not are_one(first, second)
    assert canonical_word(first) != canonical_word(second)


def invertible():
    tables = (np.array(entries).reshape(2, 2) for entries in product((0, 1), repeat=4))
    return [table for table in tables if (table[0, 0] * table[1, 1] + table[0, 1] * table[1, 0]) % 2]


def smallest_of_all_images(claim):
    """The whole group of 2x2x2 modulo 2, written out: 6 x 6 x 6 bases and 6 orders of the factors."""
    best = None
    powers = 2 ** np.arange(4)
    for g, h, k in product(invertible(), repeat=3):
        factors = trace_form(claim)
        moved = [g @ factors[0] @ inverse(h), h @ factors[1] @ inverse(k), k @ factors[2] @ inverse(g)]
        for order in permutations(range(3)):
            x, y, z = (factor.reshape(-1, 4) % 2 @ powers for factor in view(tuple(moved), order))
            rows = sorted((256 * x + 16 * y + z).tolist())
            best = rows if best is None else min(best, rows)
    return tuple(best)


def inverse(table):
    return np.array([[table[1, 1], table[0, 1]], [table[1, 0], table[0, 0]]])


def test_forms_agree_with_the_whole_group_gone_through():
    """Schemes of eight rows a few flips from the schoolbook's: they fall into the same classes both ways."""
    pairs = set()
    for seed in range(1, 13):
        walk = resume_walk(schoolbook_masks(), schoolbook_masks(), seed, 0)
        walk.go(1 + seed // 3, 1000, 0, 7)
        scheme = verify(from_masks(walk.current, TWO))
        pairs.add((smallest_of_all_images(scheme.claim), canonical_word(scheme)))
    classes, words = ({pair[place] for pair in pairs} for place in (0, 1))
    assert 2 < len(classes) < 12
    assert len(classes) == len(words) == len(pairs)
    assert "" not in words


def schoolbook_masks():
    return [[1 << (2 * i + j), 1 << (2 * j + k), 1 << (2 * i + k)] for i, j, k in product(range(2), repeat=3)]


def test_a_form_is_a_scheme_itself(strassen_bits):
    form = canonical_form(verify(strassen_bits))
    factors = np.array(form.rows).reshape(7, 3, 2, 2)
    u, v, w = from_trace_form(factors[:, 0], factors[:, 1], factors[:, 2])
    assert are_one(verify(Factorization(TWO, Field.GF2, u, v, w)), verify(strassen_bits))


def test_over_other_fields_it_is_another_form(strassen, strassen_bits):
    assert canonical_word(verify(strassen)) != canonical_word(verify(strassen_bits))


def test_denominators_are_part_of_a_scheme_and_not_of_its_form(strassen):
    halved = Factorization(TWO, Field.Q, 2 * strassen.u, strassen.v, strassen.w, (2, 1, 1))
    assert canonical_word(verify(halved)) == canonical_word(verify(strassen))


def test_the_schoolbooks_scheme_over_numbers_has_no_form():
    """It has infinitely many symmetries of its own: any lengths of the basis vectors."""
    assert canonical_form(verify(schoolbook(TWO, Field.ZT))) is None


def test_a_product_with_many_symmetries_of_its_own_has_a_form(strassen_bits):
    """Strassen's scheme has 36 by bases alone; squared, thousands."""
    square = multiplied(strassen_bits, strassen_bits)
    image = random_image(square, np.random.default_rng(3))
    word = canonical_word(verify(square))
    assert word
    assert canonical_word(verify(image)) == word
