from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.formulas import (
    GAP,
    MINUS,
    PLUS,
    SQUARE,
    ZERO,
    draw_factors,
    format_sum,
    formulas,
    python_code,
    straight_line,
)


def test_formulas_of_strassen_are_the_classic_ones(strassen):
    lines = formulas(strassen)
    assert lines[0] == "m1 = (a11 + a22) * (b11 + b22)"
    assert lines[5] == "m6 = (a21 - a11) * (b11 + b12)"
    assert lines[-4:] == [
        "c11 = m1 + m4 + m7 - m5",
        "c12 = m3 + m5",
        "c21 = m2 + m4",
        "c22 = m1 + m3 + m6 - m2",
    ]


def test_formulas_have_coefficients_and_signs():
    assert format_sum([(0, -1)], ["x"]) == "-x"
    assert format_sum([(0, -1), (1, 2)], ["x", "y"]) == "2 * y - x"
    assert format_sum([], []) == "0"


def test_the_straight_line_has_the_counted_additions(strassen):
    lines = straight_line(strassen)
    signs = sum(line.count(" + ") + line.count(" - ") for line in lines)
    assert signs == 18


@pytest.mark.parametrize("format_", [Format(2, 2, 2), Format(1, 3, 2), Format(3, 1, 10)])
def test_the_generated_code_multiplies(format_, strassen, tmp_path):
    claim = strassen if format_ == Format(2, 2, 2) else naive_factorization(format_, Field.Z)
    rows, inner, columns = (2 * side for side in format_.sides)
    code = python_code(claim) + (
        f"a = np.arange({rows * inner}).reshape({rows}, {inner})\n"
        f"b = np.arange({inner * columns}).reshape({inner}, {columns})\n"
        f"assert (multiply_{format_}(a, b) == a @ b).all()\nprint('right')\n"
    )
    (tmp_path / "code.py").write_text(code)
    done = subprocess.run([sys.executable, tmp_path / "code.py"], capture_output=True, text=True)
    assert done.stdout == "right\n", done.stderr


def test_code_over_gf2_is_marked_and_reduces(strassen_bits):
    code = python_code(strassen_bits)
    assert "over gf2" in code
    assert code.rstrip().endswith("% 2")


def test_rational_schemes_divide():
    ones = np.ones((1, 1), dtype=np.int64)
    claim = Factorization(Format(1, 1, 1), Field.Q, ones, ones, 2 * ones, (1, 1, 2))
    assert formulas(claim)[-1] == "c11 = (2 * m1) / 2"


def test_the_image_has_a_square_for_each_coefficient(strassen):
    picture = draw_factors(strassen, 8)
    assert picture.shape == (2 * GAP + 8 * SQUARE, 4 * GAP + 12 * SQUARE, 3)
    colours = {1: PLUS, 0: ZERO, -1: MINUS}
    left = GAP
    for factor in strassen.factors:
        for row, column in np.ndindex(factor.shape):
            pixel = picture[GAP + row * SQUARE, left + column * SQUARE]
            assert tuple(pixel.tolist()) == colours[int(factor[row, column])]
        left += 4 * SQUARE + GAP
