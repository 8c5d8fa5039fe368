"""What multiplies below the last level: BLAS for floats, compiled tiles for whole numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.compiler import compile_source
from palaestra.contracts.errors import RunFailed

Matrix = NDArray[Any]
Leaf = Callable[[Matrix, Matrix, Matrix], None]  # a, b, and where the product goes


def leaf_for(dtype: str, threads: int) -> Leaf:
    """BLAS has as many threads as the process was started with; ours takes `threads`."""
    return integer_leaf(threads) if dtype == "int64" else blas_leaf


def blas_leaf(a: Matrix, b: Matrix, out: Matrix) -> None:
    np.matmul(a, b, out=out)


def integer_leaf(threads: int) -> Leaf:
    library = _integer_library()

    def multiply(a: Matrix, b: Matrix, out: Matrix) -> None:
        (rows, inner), columns = a.shape, b.shape[1]
        if inner == 0:
            out[:] = 0
            return
        failed = library.multiply(
            *_place(a),
            *_place(b),
            *_place(out),
            ctypes.c_ssize_t(rows),
            ctypes.c_ssize_t(inner),
            ctypes.c_ssize_t(columns),
            ctypes.c_int(threads),
        )
        if failed:
            raise RunFailed("There is no memory for a product.")

    return multiply


def row_width(matrix: Matrix) -> int:
    """Entries from one row to the next."""
    return matrix.strides[0] // matrix.itemsize


def _place(matrix: Matrix) -> tuple[ctypes.c_void_p, ctypes.c_ssize_t]:
    return ctypes.c_void_p(matrix.ctypes.data), ctypes.c_ssize_t(row_width(matrix))


@cache
def _integer_library() -> ctypes.CDLL:
    return compile_source(files("palaestra.apps.matmul").joinpath("integer_leaf.c").read_text("utf-8"))
