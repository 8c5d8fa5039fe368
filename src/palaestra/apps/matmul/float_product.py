"""Products of floats: compiled code sums blocks, the next level multiplies, and sums again; below it is BLAS.

What is left over at the rim of sides that the format does not divide is BLAS's, too.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.blocks import Blocks, Matrix, empty_planes, split
from palaestra.apps.matmul.c_source import factor_order, made_sums, scheme_source
from palaestra.apps.matmul.compiler import compile_source

if TYPE_CHECKING:
    from palaestra.apps.matmul.factorization import Factorization
    from palaestra.apps.matmul.straight_line import SchemePrograms


class FloatProduct:
    """Call it with A, B, where C goes, and levels. BLAS has as many threads as the process was started with."""

    def __init__(self, claim: Factorization, programs: SchemePrograms, dtype: np.dtype[Any], threads: int) -> None:
        self.sides = claim.format.sides
        self.scale = prod(claim.denominators)
        self.programs = programs
        self.dtype = dtype
        self.threads = threads
        self._library = compile_source(scheme_source(programs, dtype.name))
        self._orders = {"left": factor_order(programs.left), "right": factor_order(programs.right)}
        self._rooms: dict[tuple[int, int, int, int], _Room] = {}

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

    def forget(self) -> None:
        self._rooms.clear()

    def _multiply_blocks(self, a: Matrix, b: Matrix, out: Matrix, block: tuple[int, int, int], levels: int) -> None:
        room = self._room(block, levels)
        n, m, p = self.sides
        left = self._summed("left", split(a, n, m), room.left)
        right = self._summed("right", split(b, m, p), room.right)
        for one, other, product in zip(left, right, room.products.planes, strict=True):
            self(one, other, product, levels - 1)
        self._call("product", room.products, split(out, n, p))
        if self.scale != 1:
            out /= self.scale

    def _summed(self, name: str, given: Blocks, made: Blocks) -> list[Matrix]:
        """The factors of all products: blocks as they lie there, or sums."""
        if len(made):
            self._call(name, given, made)
        planes = given.planes + made.planes
        return [planes[k] for k in self._orders[name]]

    def _call(self, name: str, given: Blocks, made: Blocks) -> None:
        rows, columns = made.planes[0].shape
        self._library[name](
            ctypes.c_void_p(given.places.ctypes.data),
            ctypes.c_void_p(made.places.ctypes.data),
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


class _Room:
    def __init__(self, programs: SchemePrograms, block: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        rows, inner, columns = block
        self.left = empty_planes(len(made_sums(programs.left)), rows, inner, dtype)
        self.right = empty_planes(len(made_sums(programs.right)), inner, columns, dtype)
        self.products = empty_planes(programs.product.inputs, rows, columns, dtype)
