"""A scheme as a function of two matrices of one type: sums of blocks, products one level below, and sums again.

Below the last level the platform's BLAS multiplies floats, and tiles of our own whole numbers of 64 bits (modulo 2^64,
bit for bit what NumPy gives).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.c_source import C_TYPES
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.float_product import FloatProduct
from palaestra.apps.matmul.integer_product import IntegerProduct
from palaestra.apps.matmul.straight_line import scheme_programs
from palaestra.apps.matmul.turned_signs import without_negated_factors
from palaestra.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from palaestra.apps.matmul.blocks import Matrix
    from palaestra.apps.matmul.verification import VerifiedFactorization

THOROUGH = 32  # tries for the fewest additions


class Executor:
    """Call it with two matrices of its dtype; `levels` is how often the scheme is applied inside itself."""

    def __init__(self, scheme: VerifiedFactorization, dtype: str, threads: int = 1) -> None:
        check_executable(scheme, dtype)
        self.scheme = scheme
        self.dtype = np.dtype(dtype)
        programs = without_negated_factors(scheme_programs(scheme.claim, THOROUGH))
        self._product: FloatProduct | IntegerProduct = (
            IntegerProduct(scheme.format, programs, threads)
            if dtype == "int64"
            else FloatProduct(scheme.claim, programs, self.dtype, threads)
        )

    def __call__(self, a: Matrix, b: Matrix, out: Matrix | None = None, levels: int = 1) -> Matrix:
        a, b = (row_by_row(each, self.dtype) for each in (a, b))
        if a.shape[1] != b.shape[0]:
            raise UsageError(f"A has {a.shape[1]} columns and B has {b.shape[0]} rows.", "They must be as many.")
        made = np.empty((a.shape[0], b.shape[1]), self.dtype) if out is None else out
        if made.shape != (a.shape[0], b.shape[1]) or row_by_row(made, self.dtype) is not made:
            raise UsageError(f"'out' is {made.dtype} of shape {list(made.shape)}.", "It must be as the product is.")
        self._product(a, b, made, levels)
        return made

    def forget(self) -> None:
        """Give the memory back."""
        self._product.forget()


def check_executable(scheme: VerifiedFactorization, dtype: str) -> None:
    if dtype not in C_TYPES:
        hint = did_you_mean(dtype, C_TYPES) or f"Known: {', '.join(C_TYPES)}."
        raise UsageError(f"There is no compiled executor for {dtype}.", hint)
    check_field(scheme, dtype)


def check_field(scheme: VerifiedFactorization, dtype: str) -> None:
    if scheme.field is Field.GF2:
        raise UsageError(
            f"A scheme over gf2 is wrong for numbers of the type {dtype}: it holds modulo 2 only.",
            "Search with field=zt or field=z, or lift it.",
        )
    if scheme.field is Field.Q and not dtype.startswith("float"):
        raise UsageError(f"A scheme over q divides, which {dtype} cannot.", "Choose float32 or float64.")


def row_by_row(matrix: Matrix, dtype: Any) -> Matrix:
    """As compiled code reads it: two sides, the right type, entries of a row beside each other."""
    if matrix.ndim != 2 or matrix.dtype != dtype:
        raise UsageError(
            f"A matrix is {matrix.dtype} with {matrix.ndim} sides.", f"Two sides and the type {dtype} are wanted."
        )
    beside = matrix.strides[1] == matrix.itemsize and matrix.strides[0] >= matrix.shape[1] * matrix.itemsize
    return matrix if beside else np.ascontiguousarray(matrix)
