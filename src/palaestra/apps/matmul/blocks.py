"""Matrices of one size as compiled code finds them: where each begins, and how far apart its rows are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]
Places = NDArray[np.int64]
LINE = 64  # bytes
STAGGER = 17  # lines between two planes: without it all of them fall on the same places of the cache


@dataclass(frozen=True, eq=False)
class Blocks:
    planes: list[Matrix]
    places: Places  # [planes, 2]: address, and entries from one row to the next

    def __len__(self) -> int:
        return len(self.planes)


def row_width(matrix: Matrix) -> int:
    """Entries from one row to the next."""
    return matrix.strides[0] // matrix.itemsize


def split(matrix: Matrix, high: int, wide: int) -> Blocks:
    rows, columns = matrix.shape[0] // high, matrix.shape[1] // wide
    corners = [(i * rows, j * columns) for i in range(high) for j in range(wide)]
    return _blocks([matrix[top : top + rows, left : left + columns] for top, left in corners])


def empty_planes(count: int, rows: int, columns: int, dtype: np.dtype[Any]) -> Blocks:
    """Room in one piece of memory; every row begins with a line of the cache."""
    line = LINE // dtype.itemsize
    width = -(-columns // line) * line + line
    size = rows * width + STAGGER * line
    flat = aligned_empty(count * size, dtype)
    return _blocks([flat[k * size : k * size + rows * width].reshape(rows, width)[:, :columns] for k in range(count)])


def aligned_empty(entries: int, dtype: np.dtype[Any]) -> Matrix:
    """From the beginning of a line of the cache on: vectors that lie across two lines take twice as long."""
    line = LINE // dtype.itemsize
    flat = np.empty(entries + line, dtype)
    begin = -(flat.ctypes.data // dtype.itemsize) % line
    return flat[begin : begin + entries]


def _blocks(planes: list[Matrix]) -> Blocks:
    places = [(plane.ctypes.data, row_width(plane)) for plane in planes]
    return Blocks(planes, np.array(places, dtype=np.int64).reshape(len(planes), 2))
