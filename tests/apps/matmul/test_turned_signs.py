import numpy as np

from palaestra.apps.matmul.c_source import made_sums
from palaestra.apps.matmul.factorization import Factorization
from palaestra.apps.matmul.straight_line import evaluate, scheme_programs
from palaestra.apps.matmul.turned_signs import without_negated_factors

SIGNS = np.array([1, 1, -1, -1, 1, -1, 1])  # of Strassen's rows: the third and fourth have a block alone


def turned(strassen, left, right):
    """The same scheme with other signs of its rows."""
    signs = (left[:, None], right[:, None], (left * right)[:, None])
    u, v, w = (factor * sign for factor, sign in zip(strassen.factors, signs, strict=True))
    return Factorization(strassen.format, strassen.field, u, v, w)


def multiplied(programs, a, b):
    products = evaluate(programs.left, a.reshape(4)) * evaluate(programs.right, b.reshape(4))
    return evaluate(programs.product, products).reshape(2, 2)


def test_the_product_is_the_same_whichever_signs_the_rows_had(strassen):
    a, b = np.array([[3, -1], [4, 7]]), np.array([[2, 5], [-6, 9]])
    ones = np.ones(7, dtype=np.int64)
    for left, right in ((ones, ones), (SIGNS, ones), (ones, -ones), (SIGNS, SIGNS), (-SIGNS, SIGNS)):
        programs = scheme_programs(turned(strassen, left, right))
        assert (multiplied(without_negated_factors(programs), a, b) == a @ b).all()


def test_a_block_with_a_minus_is_not_copied(strassen):
    programs = scheme_programs(turned(strassen, SIGNS, np.ones(7, dtype=np.int64)))
    assert len(made_sums(programs.left)) == 7
    assert len(made_sums(without_negated_factors(programs).left)) == 5


def test_additions_stay_as_many(strassen):
    programs = scheme_programs(turned(strassen, SIGNS, -SIGNS))
    assert without_negated_factors(programs).additions == programs.additions
