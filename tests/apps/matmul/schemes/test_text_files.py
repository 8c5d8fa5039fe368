"""The texts are written here by hand or from the tables, in the notations of published files."""

import pytest

from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import readings
from palaestra.apps.matmul.schemes.text_files import TEXT_READERS
from palaestra.apps.matmul.verify import verify_any
from palaestra.core.errors import UsageError


def proved(suffix, text):
    return verify_any(readings(TEXT_READERS[suffix](text)))


def nested(claim, left, right):
    """The rows as nested lists of matrices, with w transposed."""
    (n, m, p), lines = claim.format.sides, []
    for u, v, w in zip(*claim.factors, strict=True):
        parts = [u.reshape(n, m), v.reshape(m, p), w.reshape(n, p).T]
        lines.append([part.tolist() for part in parts])
    return str(lines).replace("[", left).replace("]", right)


def test_nested_braces_are_read():
    claim = naive_factorization(Format(2, 3, 4), Field.ZT)
    text = "scheme = " + nested(claim, "{", "}").replace("1", "1/2 + 1/2", 1)
    found = proved(".m", text)
    assert (str(found.format), found.rank) == ("2x3x4", 24)


def test_braces_with_fractions_are_read(strassen):
    text = nested(strassen, "{", "}").replace("-1", "-1/2").replace("1,", "1 ,")
    raw = TEXT_READERS[".m"](text)
    assert raw.field is Field.Q


def test_maple_matrices_with_arithmetic_are_read(strassen):
    matrices = [
        ", ".join(f"Matrix(2, 2, {factor[row].reshape(2, 2).tolist()})" for factor in strassen.factors)
        for row in range(7)
    ]
    text = "A:=Matrix(2, 2, [[A_1_1,A_1_2],[A_2_1,A_2_2]]):\nTensor:=TriadSet([" + ", ".join(
        f"Triad([{each}])" for each in matrices
    )
    text = text.replace("[1, 0]", "[-(1-1*2)**3,0*--1]") + "]):"
    assert proved(".mpl", text).rank == 7


def test_plain_numbers_after_a_header_are_read(strassen):
    numbers = " ".join(str(value) for factor in strassen.factors for value in factor.ravel())
    assert proved(".txt", f"2 2 2 7\n{numbers}\n").rank == 7
    with pytest.raises(UsageError, match="Expected 88"):
        proved(".txt", f"2 2 2 7\n{numbers} 1\n")


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (".txt", "", "not those of the entries"),
        (".txt", "m1 = a11 * q", "Line 1: Unknown name: 'q'"),
        (".txt", "m1 = __import__('os')", "Line 1: Unexpected"),
        (".txt", "m1 = " + "(" * 50 + "a11", "nested parentheses"),
        (".txt", "m1 = a11 / b11", "Division by a sum"),
        (".txt", "s = 3*a11\n" + "\n".join(["s = s*3 + s"] * 80), "too large"),
        (".txt", "m1 = a11 * a12", "c"),
        (".txt", "m1 = a11/0", "Division by zero"),
        (".exp", "a11*b11", "A row with 2 sums"),
        (".m", "{{{1}}}", "rows of three matrices"),
        (".m", "{" * 5000 + "}" * 5000, "damaged"),
        (".mpl", "x", "no rows"),
        (".mpl", "Triad([Matrix(1, 1, [[1]])])", "1 matrices"),
    ],
)
def test_damaged_texts_are_refused(suffix, text, message):
    with pytest.raises(UsageError, match=message):
        proved(suffix, text)
