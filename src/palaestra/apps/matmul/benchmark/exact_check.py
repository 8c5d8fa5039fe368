"""Proof through the generated code: products of whole numbers against Python's own, before anything is timed.

Blocks do not commute, so a scheme that is right for single numbers only would be found out here; so would a wrong
compiler, a wrong rim and a wrong sign.
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
SMALL = 4  # entries up to this: every sum stays exact, in float32 as well
WORD = 2**64


def check_exact(scheme: VerifiedFactorization, dtypes: tuple[str, ...], threads: int, seed: int) -> int:
    """How many products were compared, entry by entry; `RunFailed` at the first that differs."""
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
    """In Python's own integers."""
    product: Matrix = np.matmul(a.astype(object), b.astype(object))
    return product


def _multiplier(scheme: VerifiedFactorization, dtype: str, threads: int) -> Any:
    if dtype == "object":
        return BigIntegerExecutor(scheme)
    return Executor(scheme, "int64" if dtype == "modular" else dtype, threads)


def _entries(dtype: str, shape: tuple[int, int, int], rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Zeros and negative numbers among them; all 64 bits for int64."""
    rows, inner, columns = shape
    sides = ((rows, inner), (inner, columns))
    if dtype in {"int64", "modular"}:
        limits = np.iinfo(np.int64)
        a, b = (rng.integers(limits.min, limits.max, side, dtype=np.int64, endpoint=True) for side in sides)
    else:
        a, b = (rng.integers(-SMALL, SMALL, side, endpoint=True).astype(dtype) for side in sides)
    if dtype == "object":
        a, b = a * (1 << 200) + 1, b * (1 << 200) - 1
    a[0], b[:, -1] = 0, 0
    return a, b


def _compare(made: Matrix, a: Matrix, b: Matrix, where: str) -> None:
    wanted = exact_product(_whole(a), _whole(b))
    got = _whole(made).astype(object)
    if a.dtype == np.int64:
        wanted, got = wanted % WORD, got % WORD
    wrong = int(np.count_nonzero(got != wanted))
    if wrong or got.shape != wanted.shape:
        raise RunFailed(f"The generated code is wrong: {wrong} of {wanted.size} entries differ ({where}).")


def _whole(matrix: Matrix) -> Matrix:
    """Floats that are not whole would be rounded here, so they are kept as they are, and differ."""
    if matrix.dtype.kind == "f" and (matrix == np.rint(matrix)).all():
        return matrix.astype(np.int64)
    return matrix
