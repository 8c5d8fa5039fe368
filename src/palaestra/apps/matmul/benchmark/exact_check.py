"""Checks the generated code before timing: integer products against Python's integers, entry by entry.

Since blocks do not commute, this also detects schemes that hold for scalars only, and errors of the compiler, of
borders and of signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.benchmark.big_integers import BigIntegerExecutor
from palaestra.apps.matmul.benchmark.executor import Executor
from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from palaestra.apps.matmul.benchmark.executor import Matrix
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

SHAPES = ((12, 12, 12), (17, 11, 23), (40, 24, 31))  # rows, inner, columns: even, odd, not square
MAX_ENTRY = 4  # bound of entries: every sum is exact, also in float32
WORD = 2**64


def check_exact(scheme: VerifiedFactorization, dtypes: tuple[str, ...], threads: int, seed: int) -> int:
    """Returns the number of products compared; raises `RunFailed` at the first that differs."""
    checked = 0
    for dtype in dtypes:
        run = _multiplier(scheme, dtype, threads)
        for number, shape in enumerate(SHAPES):
            a, b = _entries(dtype, shape, np.random.default_rng([seed, number]))
            for levels in (1, 2):
                _compare(run(a, b, levels=levels), a, b, f"{dtype}, {shape}, {levels} levels")
                checked += 1
    return checked


def exact_product(a: Matrix, b: Matrix) -> Matrix:
    """The product in Python integers."""
    product: Matrix = np.matmul(a.astype(object), b.astype(object))
    return product


def _multiplier(scheme: VerifiedFactorization, dtype: str, threads: int) -> Any:
    if dtype == "object":
        return BigIntegerExecutor(scheme)
    return Executor(scheme, "int64" if dtype == "modular" else dtype, threads)


def _entries(dtype: str, shape: tuple[int, int, int], rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Random entries with zeros and negative numbers; the full range for int64."""
    rows, inner, columns = shape
    sides = ((rows, inner), (inner, columns))
    if dtype in {"int64", "modular"}:
        limits = np.iinfo(np.int64)
        a, b = (rng.integers(limits.min, limits.max, side, dtype=np.int64, endpoint=True) for side in sides)
    else:
        a, b = (rng.integers(-MAX_ENTRY, MAX_ENTRY, side, endpoint=True).astype(dtype) for side in sides)
    if dtype == "object":
        a, b = a * (1 << 200) + 1, b * (1 << 200) - 1
    a[0], b[:, -1] = 0, 0
    return a, b


def _compare(product: Matrix, a: Matrix, b: Matrix, where: str) -> None:
    expected = exact_product(_to_integers(a), _to_integers(b))
    actual = _to_integers(product).astype(object)
    if a.dtype == np.int64:
        expected, actual = expected % WORD, actual % WORD
    wrong = int(np.count_nonzero(actual != expected))
    if wrong or actual.shape != expected.shape:
        raise RunFailed(f"The generated code is wrong: {wrong} of {expected.size} entries differ ({where}).")


def _to_integers(matrix: Matrix) -> Matrix:
    """Integral floats as int64; others unchanged, so that they compare unequal."""
    if matrix.dtype.kind == "f" and (matrix == np.rint(matrix)).all():
        return matrix.astype(np.int64)
    return matrix
