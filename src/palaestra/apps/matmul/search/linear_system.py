"""Linear systems modulo 2 and 3, reduced once and solved for many right sides; 64 entries in a word."""

from __future__ import annotations

import time
from math import inf

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint8]
Words = NDArray[np.uint64]


class LinearSystem:
    """matrix @ solution = right modulo `prime`, 2 or 3; free unknowns are 0."""

    def __init__(self, matrix: Residues, prime: int, deadline: float = inf) -> None:
        """After `deadline` (time.monotonic) the reduction stops, and `is_late` is true."""
        self._equations, self._unknowns = matrix.shape
        self._prime = prime
        identity = np.eye(self._equations, dtype=np.uint8)
        planes = _pack(np.concatenate([matrix, identity], axis=1), prime)
        self._pivots, self.is_late = _reduce(planes, self._unknowns, prime, deadline)
        self._operations = _unpack(planes, self._unknowns, self._equations)

    def solve(self, right: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """A solution, or None if there is none."""
        values = self._operations @ (right % self._prime) % self._prime
        rank = len(self._pivots)
        if values[rank:].any():
            return None
        solution = np.zeros(self._unknowns, dtype=np.int64)
        solution[self._pivots] = values[:rank]
        return solution


Planes = list[Words]  # [rows, words] for each nonzero residue: the entries that have it


def _pack(matrix: Residues, prime: int) -> Planes:
    wide = np.zeros((len(matrix), -(-matrix.shape[1] // 64) * 64), dtype=np.uint8)
    wide[:, : matrix.shape[1]] = matrix
    return [np.packbits(wide == residue, axis=1, bitorder="little").view(np.uint64) for residue in range(1, prime)]


def _unpack(planes: Planes, start: int, count: int) -> NDArray[np.int64]:
    """The columns from `start`, [rows, count]."""
    total = np.zeros((len(planes[0]), count), dtype=np.int64)
    for residue, words in enumerate(planes, 1):
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        total += residue * bits[:, start : start + count].astype(np.int64)
    return total


def _reduce(planes: Planes, unknowns: int, prime: int, deadline: float) -> tuple[NDArray[np.intp], bool]:
    """Gauss-Jordan elimination in place: the pivot columns, and whether the deadline came first."""
    pivots: list[int] = []
    equations = len(planes[0])
    for column in range(unknowns):
        if time.monotonic() > deadline:
            return np.array(pivots, dtype=np.intp), True
        word, bit = column // 64, np.uint64(1) << np.uint64(column % 64)
        has = [(words[:, word] & bit) != 0 for words in planes]
        below = np.flatnonzero(np.logical_or.reduce(has)[len(pivots) :])
        if not len(below):
            continue
        place, found = len(pivots), len(pivots) + int(below[0])
        for words, holds in zip(planes, has, strict=True):
            words[[place, found]] = words[[found, place]]
            holds[[place, found]] = holds[[found, place]]
        if prime == 3 and has[1][place]:  # the pivot becomes 1
            planes[0][place], planes[1][place] = planes[1][place].copy(), planes[0][place].copy()
        for holds in has:
            holds[place] = False
        _eliminate(planes, has, place)
        pivots.append(column)
        if len(pivots) == equations:
            break
    return np.array(pivots, dtype=np.intp), False


def _eliminate(planes: Planes, has: list[NDArray[np.bool_]], place: int) -> None:
    """Subtracts the pivot row, times 1 or 2, from the rows that have this residue in the pivot's column."""
    if len(planes) == 1:
        planes[0][has[0]] ^= planes[0][place]
        return
    ones, twos = planes
    for holds, b1, b2 in ((has[0], twos[place], ones[place]), (has[1], ones[place], twos[place])):  # minus, plus
        a1, a2 = ones[holds], twos[holds]
        both = (a1 | b2) ^ (a2 | b1)
        ones[holds], twos[holds] = (a2 | b2) ^ both, (a1 | b1) ^ both
