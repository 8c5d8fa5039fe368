"""Executes a scheme on matrices of one dtype: sums of blocks, products one level below, sums of products.

The leaf of floats is BLAS; that of int64 is a tiled kernel, modulo 2^64, bit for bit equal to NumPy. Borders of sides
that the format does not divide are multiplied by the leaf.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from importlib.resources import files
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.benchmark.c_source import C_TYPES, computed_outputs, factor_order, scheme_source, sums_source
from palaestra.apps.matmul.benchmark.compiler import compile_source
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.straight_line import scheme_programs, without_negated_factors
from palaestra.core.errors import RunFailed, UsageError, did_you_mean

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Format
    from palaestra.apps.matmul.schemes.straight_line import SchemePrograms
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

CSE_TRIES = 32  # of the CSE


class Executor:
    """Multiplies two matrices of its dtype; `levels` is the recursion depth of the scheme."""

    def __init__(self, scheme: VerifiedFactorization, dtype: str, threads: int = 1) -> None:
        check_executable(scheme, dtype)
        self.scheme = scheme
        self.dtype = np.dtype(dtype)
        programs = without_negated_factors(scheme_programs(scheme.claim, CSE_TRIES))
        self._product: FloatProduct | IntegerProduct = (
            IntegerProduct(scheme.format, programs, threads)
            if dtype == "int64"
            else FloatProduct(scheme.claim, programs, self.dtype, threads)
        )

    def __call__(self, a: Matrix, b: Matrix, out: Matrix | None = None, levels: int = 1) -> Matrix:
        a, b = (with_contiguous_rows(each, self.dtype) for each in (a, b))
        if a.shape[1] != b.shape[0]:
            raise UsageError(f"A has {a.shape[1]} columns, but B has {b.shape[0]} rows.", "They must be equal.")
        made = np.empty((a.shape[0], b.shape[1]), self.dtype) if out is None else out
        if made.shape != (a.shape[0], b.shape[1]) or with_contiguous_rows(made, self.dtype) is not made:
            raise UsageError(
                f"Invalid 'out': {made.dtype} of shape {list(made.shape)}.", "Expected dtype and shape of the product."
            )
        self._product(a, b, made, levels)
        return made

    def release_buffers(self) -> None:
        """Releases the memory of intermediate results."""
        self._product.release_buffers()


def check_executable(scheme: VerifiedFactorization, dtype: str) -> None:
    if dtype not in C_TYPES:
        hint = did_you_mean(dtype, C_TYPES) or f"Known: {', '.join(C_TYPES)}."
        raise UsageError(f"No compiled executor for {dtype}.", hint)
    check_field(scheme, dtype)


def check_field(scheme: VerifiedFactorization, dtype: str) -> None:
    prime = scheme.field.characteristic
    if prime:
        raise UsageError(
            f"A scheme over {scheme.field} cannot multiply {dtype}: it is valid modulo {prime} only.",
            "Search with field=zt or field=z, or lift it.",
        )
    if scheme.field.is_complex:
        raise UsageError(f"A scheme over {scheme.field} needs complex numbers, which are not benchmarked.")
    if scheme.field is Field.Q and not dtype.startswith("float"):
        raise UsageError(f"A scheme over q needs division, which {dtype} does not support.", "Use float32 or float64.")


def with_contiguous_rows(matrix: Matrix, dtype: Any) -> Matrix:
    """The matrix, or a copy, with contiguous rows; checks dimensions and dtype."""
    if matrix.ndim != 2 or matrix.dtype != dtype:
        raise UsageError(
            f"Invalid matrix: {matrix.dtype} with {matrix.ndim} dimensions.", f"Expected {dtype} with 2 dimensions."
        )
    is_contiguous = matrix.strides[1] == matrix.itemsize and matrix.strides[0] >= matrix.shape[1] * matrix.itemsize
    return matrix if is_contiguous else np.ascontiguousarray(matrix)


class FloatProduct:
    """Computes C = A B for floats. BLAS uses the threads that the process was started with."""

    def __init__(self, claim: Factorization, programs: SchemePrograms, dtype: np.dtype[Any], threads: int) -> None:
        self.sides = claim.format.sides
        self.scale = prod(claim.denominators)
        self.programs = programs
        self.dtype = dtype
        self.threads = threads
        self._library = compile_source(scheme_source(programs, dtype.name))
        self._orders = {"left": factor_order(programs.left), "right": factor_order(programs.right)}
        self._buffers: dict[tuple[int, int, int, int], _Buffers] = {}

    def __call__(self, a: Matrix, b: Matrix, out: Matrix, levels: int) -> None:
        n, m, p = self.sides
        rows, inner, columns = a.shape[0] // n, a.shape[1] // m, b.shape[1] // p
        if levels == 0 or 0 in (rows, inner, columns):
            np.matmul(a, b, out=out)
            return
        high, deep, wide = rows * n, inner * m, columns * p
        self._multiply_blocks(a[:high, :deep], b[:deep, :wide], out[:high, :wide], (rows, inner, columns), levels)
        if deep < a.shape[1]:
            out[:high, :wide] += np.matmul(a[:high, deep:], b[deep:, :wide])
        if wide < b.shape[1]:
            np.matmul(a[:high], b[:, wide:], out=out[:high, wide:])
        if high < a.shape[0]:
            np.matmul(a[high:], b, out=out[high:])

    def release_buffers(self) -> None:
        self._buffers.clear()

    def _multiply_blocks(self, a: Matrix, b: Matrix, out: Matrix, block: tuple[int, int, int], levels: int) -> None:
        buffers = self._buffers_for(block, levels)
        n, m, p = self.sides
        left = self._factors("left", split(a, n, m), buffers.left)
        right = self._factors("right", split(b, m, p), buffers.right)
        for one, other, product in zip(left, right, buffers.products.planes, strict=True):
            self(one, other, product, levels - 1)
        self._call("product", buffers.products, split(out, n, p))
        if self.scale != 1:
            out /= self.scale

    def _factors(self, name: str, inputs: Blocks, made: Blocks) -> list[Matrix]:
        """The factors of all products: views of blocks, or sums."""
        if len(made):
            self._call(name, inputs, made)
        planes = inputs.planes + made.planes
        return [planes[k] for k in self._orders[name]]

    def _call(self, name: str, inputs: Blocks, made: Blocks) -> None:
        rows, columns = made.planes[0].shape
        self._library[name](
            ctypes.c_void_p(inputs.addresses.ctypes.data),
            ctypes.c_void_p(made.addresses.ctypes.data),
            ctypes.c_ssize_t(rows),
            ctypes.c_ssize_t(columns),
            ctypes.c_int(self.threads),
        )

    def _buffers_for(self, block: tuple[int, int, int], levels: int) -> _Buffers:
        """Reused by calls with the same sizes."""
        key = (*block, levels)
        if key not in self._buffers:
            self._buffers[key] = _Buffers(self.programs, block, self.dtype)
        return self._buffers[key]


class _Buffers:
    def __init__(self, programs: SchemePrograms, block: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        rows, inner, columns = block
        self.left = empty_planes(len(computed_outputs(programs.left)), rows, inner, dtype)
        self.right = empty_planes(len(computed_outputs(programs.right)), inner, columns, dtype)
        self.products = empty_planes(programs.product.inputs, rows, columns, dtype)


TABLES = """
enum {{ N = {sides[0]}, M = {sides[1]}, P = {sides[2]}, RANK = {rank}, LEFT_SUMS = {sums[0]}, RIGHT_SUMS = {sums[1]} }};
static const int LEFT_ORDER[] = {{{left}}};
static const int RIGHT_ORDER[] = {{{right}}};
"""


class IntegerProduct:
    """Computes C = A B for int64, all levels in one compiled call; 0 levels: the tiled kernel alone."""

    def __init__(self, format_: Format, programs: SchemePrograms, threads: int) -> None:
        self.threads = threads
        self._library = compile_source(integer_source(format_, programs))
        self._library.workspace_size.restype = ctypes.c_ssize_t
        self._buffers: dict[tuple[int, int, int, int], Matrix] = {}

    def __call__(self, a: Matrix, b: Matrix, out: Matrix, levels: int) -> None:
        sides = (a.shape[0], a.shape[1], b.shape[1])
        if sides[1] == 0:
            out[:] = 0
            return
        failed = self._library.multiply(
            *_address(a),
            *_address(b),
            *_address(out),
            *(ctypes.c_ssize_t(side) for side in sides),
            ctypes.c_int(levels),
            ctypes.c_void_p(self._buffers_for(sides, levels).ctypes.data),
            ctypes.c_int(self.threads),
        )
        if failed:
            raise RunFailed("Out of memory for a matrix product.")

    def release_buffers(self) -> None:
        self._buffers.clear()

    def _buffers_for(self, sides: tuple[int, int, int], levels: int) -> Matrix:
        """Reused by calls with the same sizes: allocating costs more than the additions of a level."""
        key = (*sides, levels)
        if key not in self._buffers:
            entries = self._library.workspace_size(*(ctypes.c_ssize_t(side) for side in sides), ctypes.c_int(levels))
            self._buffers[key] = aligned_empty(entries, np.dtype(np.int64))
        return self._buffers[key]


def integer_source(format_: Format, programs: SchemePrograms) -> str:
    tables = TABLES.format(
        sides=format_.sides,
        rank=programs.product.inputs,
        sums=[len(computed_outputs(program)) for program in (programs.left, programs.right)],
        left=", ".join(map(str, factor_order(programs.left))),
        right=", ".join(map(str, factor_order(programs.right))),
    )
    return "".join((_text("integer_leaf.c"), sums_source(programs), tables, _text("integer_recursion.c")))


def _text(name: str) -> str:
    return files("palaestra.apps.matmul.benchmark").joinpath(name).read_text("utf-8")


def _address(matrix: Matrix) -> tuple[ctypes.c_void_p, ctypes.c_ssize_t]:
    return ctypes.c_void_p(matrix.ctypes.data), ctypes.c_ssize_t(row_stride(matrix))


Matrix = NDArray[Any]
Addresses = NDArray[np.int64]
LINE = 64  # bytes
STAGGER = 17  # cache lines between planes; without it they conflict in the cache


@dataclass(frozen=True, eq=False)
class Blocks:
    planes: list[Matrix]
    addresses: Addresses  # [planes, 2]: address and row stride in entries

    def __len__(self) -> int:
        return len(self.planes)


def row_stride(matrix: Matrix) -> int:
    """The row stride in entries."""
    return matrix.strides[0] // matrix.itemsize


def split(matrix: Matrix, high: int, wide: int) -> Blocks:
    rows, columns = matrix.shape[0] // high, matrix.shape[1] // wide
    corners = [(i * rows, j * columns) for i in range(high) for j in range(wide)]
    return _blocks([matrix[top : top + rows, left : left + columns] for top, left in corners])


def empty_planes(count: int, rows: int, columns: int, dtype: np.dtype[Any]) -> Blocks:
    """Uninitialized planes in one allocation; every row starts at a cache line."""
    line = LINE // dtype.itemsize
    width = -(-columns // line) * line + line
    size = rows * width + STAGGER * line
    flat = aligned_empty(count * size, dtype)
    return _blocks([flat[k * size : k * size + rows * width].reshape(rows, width)[:, :columns] for k in range(count)])


def aligned_empty(entries: int, dtype: np.dtype[Any]) -> Matrix:
    """An array aligned to a cache line: vectors across two lines take twice as long."""
    line = LINE // dtype.itemsize
    flat = np.empty(entries + line, dtype)
    offset = -(flat.ctypes.data // dtype.itemsize) % line
    return flat[offset : offset + entries]


def _blocks(planes: list[Matrix]) -> Blocks:
    addresses = [(plane.ctypes.data, row_stride(plane)) for plane in planes]
    return Blocks(planes, np.array(addresses, dtype=np.int64).reshape(len(planes), 2))
