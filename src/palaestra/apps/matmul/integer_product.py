"""Products of whole numbers of 64 bits, modulo 2^64: tiles, sums and all levels of a scheme as one compiled library."""

from __future__ import annotations

import ctypes
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.blocks import Matrix, aligned_empty, row_width
from palaestra.apps.matmul.c_source import factor_order, made_sums, sums_source
from palaestra.apps.matmul.compiler import compile_source
from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from palaestra.apps.matmul.format import Format
    from palaestra.apps.matmul.straight_line import SchemePrograms

TABLES = """
enum {{ N = {sides[0]}, M = {sides[1]}, P = {sides[2]}, RANK = {rank}, LEFT_SUMS = {sums[0]}, RIGHT_SUMS = {sums[1]} }};
static const int LEFT_ORDER[] = {{{left}}};
static const int RIGHT_ORDER[] = {{{right}}};
"""


class IntegerProduct:
    """Call it with A, B, where C goes, and levels; 0 levels are the tiles alone."""

    def __init__(self, format_: Format, programs: SchemePrograms, threads: int) -> None:
        self.threads = threads
        self._library = compile_source(integer_source(format_, programs))
        self._library.room_for.restype = ctypes.c_ssize_t
        self._rooms: dict[tuple[int, int, int, int], Matrix] = {}

    def __call__(self, a: Matrix, b: Matrix, out: Matrix, levels: int) -> None:
        sides = (a.shape[0], a.shape[1], b.shape[1])
        if sides[1] == 0:
            out[:] = 0
            return
        failed = self._library.multiply(
            *_place(a),
            *_place(b),
            *_place(out),
            *(ctypes.c_ssize_t(side) for side in sides),
            ctypes.c_int(levels),
            ctypes.c_void_p(self._room(sides, levels).ctypes.data),
            ctypes.c_int(self.threads),
        )
        if failed:
            raise RunFailed("There is no memory for a product.")

    def forget(self) -> None:
        self._rooms.clear()

    def _room(self, sides: tuple[int, int, int], levels: int) -> Matrix:
        """Kept for the next call of the same sizes: memory that is new costs more than a level's additions."""
        key = (*sides, levels)
        if key not in self._rooms:
            entries = self._library.room_for(*(ctypes.c_ssize_t(side) for side in sides), ctypes.c_int(levels))
            self._rooms[key] = aligned_empty(entries, np.dtype(np.int64))
        return self._rooms[key]


def integer_source(format_: Format, programs: SchemePrograms) -> str:
    tables = TABLES.format(
        sides=format_.sides,
        rank=programs.product.inputs,
        sums=[len(made_sums(program)) for program in (programs.left, programs.right)],
        left=", ".join(map(str, factor_order(programs.left))),
        right=", ".join(map(str, factor_order(programs.right))),
    )
    return "".join((_text("integer_leaf.c"), sums_source(programs), tables, _text("integer_recursion.c")))


def _text(name: str) -> str:
    return files("palaestra.apps.matmul").joinpath(name).read_text("utf-8")


def _place(matrix: Matrix) -> tuple[ctypes.c_void_p, ctypes.c_ssize_t]:
    return ctypes.c_void_p(matrix.ctypes.data), ctypes.c_ssize_t(row_width(matrix))
