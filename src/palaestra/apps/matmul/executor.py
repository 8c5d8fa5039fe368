"""A scheme as a function of two matrices: compiled code sums blocks, the next level multiplies, and sums again.

Below the last level a leaf multiplies: the platform's BLAS for floats, our own tiles for whole numbers of 64 bits
(modulo 2^64, bit for bit what NumPy gives). What is left over at the rim of sides that the format does not divide is
multiplied by the leaf.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.c_source import C_TYPES, is_input, made_sums, scheme_source
from palaestra.apps.matmul.compiler import compile_source
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.leaf import Leaf, Matrix, leaf_for, row_width
from palaestra.apps.matmul.straight_line import Program, SchemePrograms, scheme_programs
from palaestra.contracts.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from palaestra.apps.matmul.verification import VerifiedFactorization

LINE = 64  # bytes
STAGGER = 17  # lines between two planes: without it all of them fall on the same places of the cache
THOROUGH = 32  # tries for the fewest additions
Offsets = NDArray[np.int64]


class Executor:
    """Call it with two matrices of its dtype; `levels` is how often the scheme is applied inside itself."""

    def __init__(self, scheme: VerifiedFactorization, dtype: str, threads: int = 1) -> None:
        check_executable(scheme, dtype)
        self.scheme = scheme
        self.dtype = np.dtype(dtype)
        self.threads = threads
        self.programs = scheme_programs(scheme.claim, THOROUGH)
        self.leaf: Leaf = leaf_for(dtype, threads)
        self._library = compile_source(scheme_source(self.programs, dtype))
        self._rooms: dict[tuple[int, int, int, int], _Room] = {}

    def __call__(self, a: Matrix, b: Matrix, out: Matrix | None = None, levels: int = 1) -> Matrix:
        a, b = (row_by_row(each, self.dtype) for each in (a, b))
        if a.shape[1] != b.shape[0]:
            raise UsageError(f"A has {a.shape[1]} columns and B has {b.shape[0]} rows.", "They must be as many.")
        made = np.empty((a.shape[0], b.shape[1]), self.dtype) if out is None else out
        if made.shape != (a.shape[0], b.shape[1]) or row_by_row(made, self.dtype) is not made:
            raise UsageError(f"'out' is {made.dtype} of shape {list(made.shape)}.", "It must be as the product is.")
        self._multiply(a, b, made, levels)
        return made

    def _multiply(self, a: Matrix, b: Matrix, out: Matrix, levels: int) -> None:
        n, m, p = self.scheme.format.sides
        rows, inner, columns = a.shape[0] // n, a.shape[1] // m, b.shape[1] // p
        if levels == 0 or 0 in (rows, inner, columns):
            self.leaf(a, b, out)
            return
        high, deep, wide = rows * n, inner * m, columns * p
        self._multiply_blocks(a[:high, :deep], b[:deep, :wide], out[:high, :wide], (rows, inner, columns), levels)
        if deep < a.shape[1]:
            rest = np.empty((high, wide), self.dtype)
            self.leaf(a[:high, deep:], b[deep:, :wide], rest)
            out[:high, :wide] += rest
        if wide < b.shape[1]:
            self.leaf(a[:high], b[:, wide:], out[:high, wide:])
        if high < a.shape[0]:
            self.leaf(a[high:], b, out[high:])

    def _multiply_blocks(self, a: Matrix, b: Matrix, out: Matrix, block: tuple[int, int, int], levels: int) -> None:
        room = self._room(block, levels)
        n, m, p = self.scheme.format.sides
        left = self._summed("left", self.programs.left, _blocks(a, n, m), room.left)
        right = self._summed("right", self.programs.right, _blocks(b, m, p), room.right)
        for one, other, product in zip(left, right, room.products.planes, strict=True):
            self._multiply(one, other, product, levels - 1)
        target = _blocks(out, n, p)
        self._call("product", room.products, target)
        scale = prod(self.scheme.claim.denominators)
        if scale != 1:
            out /= scale

    def _summed(self, name: str, program: Program, given: _Planes, made: _Planes) -> list[Matrix]:
        """The factors of all products: blocks as they lie there, or sums."""
        if made.planes:
            self._call(name, given, made)
        sums = iter(made.planes)
        return [
            given.planes[terms[0][0]] if is_input(terms, program.inputs) else next(sums) for terms in program.outputs
        ]

    def _call(self, name: str, given: _Planes, made: _Planes) -> None:
        rows, columns = made.planes[0].shape
        self._library[name](
            ctypes.c_void_p(given.flat.ctypes.data),
            ctypes.c_ssize_t(given.wide),
            ctypes.c_void_p(given.offsets.ctypes.data),
            ctypes.c_void_p(made.flat.ctypes.data),
            ctypes.c_ssize_t(made.wide),
            ctypes.c_void_p(made.offsets.ctypes.data),
            ctypes.c_ssize_t(rows),
            ctypes.c_ssize_t(columns),
            ctypes.c_int(self.threads),
        )

    def _room(self, block: tuple[int, int, int], levels: int) -> _Room:
        """Kept for the next call of the same sizes."""
        key = (*block, levels)
        if key not in self._rooms:
            self._rooms[key] = _Room(self.programs, block, self.dtype)
        return self._rooms[key]

    def forget(self) -> None:
        """Give the memory back."""
        self._rooms.clear()


class _Planes:
    """Matrices of one size in one piece of memory: where each begins, and how far apart its rows are, in entries."""

    def __init__(self, flat: Matrix, planes: list[Matrix], offsets: Offsets, wide: int) -> None:
        self.flat = flat
        self.planes = planes
        self.offsets = offsets
        self.wide = wide


class _Room:
    def __init__(self, programs: SchemePrograms, block: tuple[int, int, int], dtype: Any) -> None:
        rows, inner, columns = block
        self.left = _empty(len(made_sums(programs.left)), rows, inner, dtype)
        self.right = _empty(len(made_sums(programs.right)), inner, columns, dtype)
        self.products = _empty(programs.product.inputs, rows, columns, dtype)


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


def _blocks(matrix: Matrix, high: int, wide: int) -> _Planes:
    rows, columns = matrix.shape[0] // high, matrix.shape[1] // wide
    width = row_width(matrix)
    corners = [(i * rows, j * columns) for i in range(high) for j in range(wide)]
    planes = [matrix[top : top + rows, left : left + columns] for top, left in corners]
    offsets = np.array([top * width + left for top, left in corners], dtype=np.int64)
    return _Planes(matrix, planes, offsets, width)


def _empty(count: int, rows: int, columns: int, dtype: Any) -> _Planes:
    line = LINE // dtype.itemsize
    width = columns + line
    size = rows * width + STAGGER * line
    flat = np.empty(count * size, dtype)
    planes = [flat[k * size : k * size + rows * width].reshape(rows, width)[:, :columns] for k in range(count)]
    return _Planes(flat, planes, np.arange(count, dtype=np.int64) * size, width)
