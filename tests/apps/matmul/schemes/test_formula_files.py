"""Formulas are written here by hand, or from the tables of a scheme that is known to be valid."""

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.formulas import formulas, straight_line
from palaestra.apps.matmul.schemes.scheme_files import readings
from palaestra.apps.matmul.schemes.text_files import TEXT_READERS
from palaestra.apps.matmul.verify import verify_any
from palaestra.core.errors import UsageError

WINOGRAD = """
# Winograd's form of 2x2x2
m1 = (a21 + a22 - a11) * (b22 - b12 + b11)
m2 = a11 b11
m3 = a12 b21
m4 = (a11 - a21)(b22 - b12)
m5 = (a21 + a22) * (b12 - b11)
m6 = (a12 - a21 + a11 - a22) * b22
m7 = a22 * (b21 + b12 - b11 - b22)
s1 = m1 + m2
s2 = s1 + m4
c11 = m2 + m3
c12 = s1 + m5 + m6
c21 = s2 + m7
c22 = s2 + m5
"""


def proved(suffix, text):
    return verify_any(readings(TEXT_READERS[suffix](text)))


def test_formulas_with_intermediate_sums_and_products_without_a_sign_are_read():
    found = proved(".txt", WINOGRAD)
    assert (str(found.format), found.rank, found.field) == ("2x2x2", 7, Field.ZT)


@pytest.mark.parametrize("write", [formulas, straight_line])
def test_our_own_formulas_are_read_back(write, strassen):
    assert proved(".txt", "\n".join(write(strassen))).rank == 7


def test_a_divisor_and_other_names_of_entries_are_read():
    found = proved(".txt", "m1 = 2*A[1,1] * b_1_1\nm2 = 3 a1_1 b1_2\nc11 = m1 / 2\nc12 = 1/3*m2")
    assert (str(found.format), found.rank, found.field) == ("1x1x2", 2, Field.ZT)


def test_rows_with_their_own_third_sum_are_read(strassen):
    """In the trace form the third sum is one of entries of the transposed product."""
    names = [[f"{letter}{i}{j}" for i in (1, 2) for j in (1, 2)] for letter in "abc"]
    names[2] = ["c11", "c21", "c12", "c22"]
    lines = [
        "*".join(
            "(" + " ".join(f"{value:+d}*{name}" for value, name in zip(row, letters, strict=True) if value) + ")"
            for row, letters in zip(rows, names, strict=True)
        )
        for rows in zip(*(factor.tolist() for factor in strassen.factors), strict=True)
    ]
    assert proved(".exp", "\n".join(lines)).rank == 7


def big_names(form):
    """The naive formulas of 1x11x11, whose entries of b have names of up to four digits."""
    lines, sums = [], {j: [] for j in range(1, 12)}
    for k in range(1, 12):
        for j in range(1, 12):
            lines.append(f"m{len(lines) + 1} = a{form.format(1, k)} * b{form.format(k, j)}")
            sums[j].append(f"m{len(lines)}")
    return "\n".join(lines + [f"c{form.format(1, j)} = {' + '.join(terms)}" for j, terms in sums.items()])


def test_names_that_can_be_two_entries_are_refused_with_advice():
    assert proved(".txt", big_names("{}_{}")).rank == 121
    with pytest.raises(UsageError, match="above 9 write a1_11"):
        proved(".txt", big_names("{}{}"))  # b111 is (1, 11) and (11, 1)


def test_gaussian_formulas_are_read(gaussian):
    lines = []
    for row, (u, v) in enumerate(zip(*gaussian.tables[:2], strict=True)):
        a = " + ".join(f"({int(x.real)} + {int(x.imag)}*i)*a{at // 2 + 1}{at % 2 + 1}" for at, x in enumerate(u))
        b = " + ".join(f"{int(x.real)}*b{at // 2 + 1}{at % 2 + 1}" for at, x in enumerate(v))
        lines.append(f"m{row + 1} = ({a}) * ({b})")
    for at, column in enumerate(gaussian.tables[2].T):
        terms = " + ".join(f"({int(x.real)} + {int(x.imag)}*i)*m{row + 1}" for row, x in enumerate(column))
        lines.append(f"c{at // 2 + 1}{at % 2 + 1} = {terms}")
    found = proved(".txt", "\n".join(lines))
    assert (found.field, found.rank) == (Field.ZI, 7)
    assert np.abs(found.claim.imaginary[0]).sum() > 0
