"""Equivalents are computed from the definition of the symmetries; for 2x2x2 over gf2 the whole group is enumerated."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.canonical_form import (
    canonical_form,
    canonical_hash,
    individualize,
    normal_rows,
    refine_colours,
    single_rows,
    smallest_class,
)
from palaestra.apps.matmul.schemes.composition import tensor_product
from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.symmetry import are_equivalent
from palaestra.apps.matmul.schemes.transformations import from_trace_form, random_basis, trace_form, view
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import SearchSettings, advance_search, start_search
from palaestra.apps.matmul.search.flip_walk import resume_walk
from palaestra.apps.matmul.search.lifting import lift

TWO = Format(2, 2, 2)


def found(format_, rank, seed):
    search = start_search(format_, seed, 1)
    while search.best_rank > rank:
        search = advance_search(search, SearchSettings(target=rank, round_flips=100_000, plus_period=5_000))
    return verify(from_masks(search.best, format_))


def random_image(claim, rng):
    """Random bases, order of factors and rows, and signs."""
    bases = [random_basis(side, claim.field, rng) for side in claim.format.sides]
    factors = trace_form(claim)
    factors = [bases[k].matrix @ factors[k] @ bases[(k + 1) % 3].inverse for k in range(3)]
    factors = view(tuple(factors), list(permutations(range(3)))[rng.integers(6)])
    order = rng.permutation(claim.rank)
    u, v, w = from_trace_form(*(factor[order] for factor in factors))
    format_ = Format(*(factor.shape[1] for factor in factors))
    if claim.field is Field.GF2:
        return Factorization(format_, Field.GF2, u % 2, v % 2, w % 2)
    first, second = rng.choice((-1, 1), size=(2, claim.rank, 1))
    return Factorization(format_, Field.Z, u * first, v * second, w * first * second)


@pytest.mark.parametrize(("sides", "rank"), [((2, 2, 3), 11), ((2, 3, 3), 15), ((3, 3, 3), 23)])
def test_random_equivalents_have_the_same_form(sides, rank):
    rng = np.random.default_rng(rank)
    plain = found(Format(*sides), rank, 1)
    for scheme in (plain, lift(plain)):
        images = [verify(random_image(scheme.claim, rng)) for _ in range(3)]
        assert {canonical_hash(image) for image in images} == {canonical_hash(scheme)}
        assert canonical_hash(scheme)


def test_inequivalent_schemes_have_different_forms():
    first, second = (found(Format(3, 3, 3), 23, seed) for seed in (0, 1))
    assert not are_equivalent(first, second)
    assert canonical_hash(first) != canonical_hash(second)


def invertible():
    tables = (np.array(entries).reshape(2, 2) for entries in product((0, 1), repeat=4))
    return [table for table in tables if (table[0, 0] * table[1, 1] + table[0, 1] * table[1, 0]) % 2]


def smallest_of_all_images(claim):
    """The minimum over the whole group of 2x2x2 over gf2: 6 x 6 x 6 bases and 6 orders of the factors."""
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


def test_forms_agree_with_an_exhaustive_search_of_the_group():
    """Schemes of rank 8 a few flips from the naive one: both methods give the same classes."""
    pairs = set()
    for seed in range(1, 13):
        walk = resume_walk(naive_masks(), naive_masks(), seed, 0)
        walk.run(1 + seed // 3, 1000, 0, 7)
        scheme = verify(from_masks(walk.current, TWO))
        pairs.add((smallest_of_all_images(scheme.claim), canonical_hash(scheme)))
    classes, words = ({pair[place] for pair in pairs} for place in (0, 1))
    assert 2 < len(classes) < 12
    assert len(classes) == len(words) == len(pairs)
    assert "" not in words


def naive_masks():
    return [[1 << (2 * i + j), 1 << (2 * j + k), 1 << (2 * i + k)] for i, j, k in product(range(2), repeat=3)]


def test_the_form_is_a_valid_scheme(strassen_bits):
    form = canonical_form(verify(strassen_bits))
    factors = np.array(form.rows).reshape(7, 3, 2, 2)
    u, v, w = from_trace_form(factors[:, 0], factors[:, 1], factors[:, 2])
    assert are_equivalent(verify(Factorization(TWO, Field.GF2, u, v, w)), verify(strassen_bits))


def test_the_form_depends_on_the_field(strassen, strassen_bits):
    assert canonical_hash(verify(strassen)) != canonical_hash(verify(strassen_bits))


def test_the_form_does_not_depend_on_the_scaling_of_denominators(strassen):
    halved = Factorization(TWO, Field.Q, 2 * strassen.u, strassen.v, strassen.w, (2, 1, 1))
    assert canonical_hash(verify(halved)) == canonical_hash(verify(strassen))


def test_the_naive_scheme_over_the_integers_has_no_form():
    """It has infinitely many automorphisms: any scaling of the basis vectors."""
    assert canonical_form(verify(naive_factorization(TWO, Field.ZT))) is None


def test_a_tensor_product_with_many_automorphisms_has_a_form(strassen_bits):
    """Strassen's scheme has 36 by bases alone; squared, thousands."""
    square = tensor_product(strassen_bits, strassen_bits)
    image = random_image(square, np.random.default_rng(3))
    word = canonical_hash(verify(square))
    assert word
    assert canonical_hash(verify(image)) == word


# a path of five: 0 - 1 - 2 - 3 - 4
PATH = np.array([[int(abs(i - j) == 1) for j in range(5)] for i in range(5)])
ALIKE = np.zeros(5, dtype=np.int64)


def test_refinement_distinguishes_rows_of_a_path_by_distance():
    colours, _ = refine_colours(ALIKE, PATH)
    assert colours[0] == colours[4] != colours[1] == colours[3] != colours[2]
    assert len(set(colours.tolist())) == 3


def test_refinement_does_not_depend_on_the_order_of_rows():
    order = np.array([3, 0, 4, 2, 1])
    colours, told = refine_colours(ALIKE, PATH)
    other, also = refine_colours(ALIKE, PATH[np.ix_(order, order)])
    assert other.tolist() == colours[order].tolist()
    assert also == told


def test_different_relations_have_different_digests():
    ring = PATH.copy()
    ring[0, 4] = ring[4, 0] = 1
    assert refine_colours(ALIKE, ring)[1] != refine_colours(ALIKE, PATH)[1]


def test_individualizing_one_row_distinguishes_all_others():
    colours, _ = refine_colours(ALIKE, PATH)
    assert single_rows(colours) == [2]
    assert smallest_class(colours) in ([0, 4], [1, 3])
    finer, _ = refine_colours(individualize(colours, 0), PATH)
    assert sorted(single_rows(finer)) == [0, 1, 2, 3, 4]
    assert smallest_class(finer) == []
    assert finer[0] < finer[4]


PRIME = 2_147_483_647
ALL = list(range(7))


def triples(factors, prime):
    return [tuple((part % prime).tolist() for part in row) for row in zip(*factors, strict=True)]


def rebased(claim, seed):
    rng = np.random.default_rng(seed)
    factors = trace_form(claim)
    bases = [random_basis(side, claim.field, rng) for side in claim.format.sides]
    return [bases[k].matrix @ factors[k] @ bases[(k + 1) % 3].inverse for k in range(3)]


def test_normalized_rows_do_not_depend_on_the_basis(strassen, strassen_bits):
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


def test_coordinates_depend_on_the_frame_rows(strassen_bits):
    assert strassen_bits.field is Field.GF2
    rows = triples(trace_form(strassen_bits), 2)
    first, second = (normal_rows(rows, order, (2, 2, 2), 2) for order in (ALL, ALL[::-1]))
    assert first != second


def test_rows_without_a_factor_of_rank_one_give_no_bases(strassen_bits):
    """The first of Strassen's rows has three invertible factors."""
    assert normal_rows(triples(trace_form(strassen_bits), 2), [0], (2, 2, 2), 2) is None
