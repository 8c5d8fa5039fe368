"""Basis-independent features of a tensor over gf2: profile and census.

A tensor [A, B, C] contracted with a vector x along an axis is a matrix. Its ranks, for all nonzero x, are the *profile*
of that axis. A change of basis of that axis permutes the profile, one of the other axes leaves it unchanged; so the
histogram of ranks, the *census*, does not depend on the basis, like the rank of the tensor that the value network
predicts. A sum of R products u (x) v (x) w has a profile with a sum of at most R * 2^(size - 1), since u . x = 1 for
half of all x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Format

Bits = NDArray[np.uint8]  # [tensors, A, B, C]
Counts = NDArray[np.float32]
MaskArray = NDArray[np.uint32]  # bit masks
MAX_DIRECTIONS = 63  # of an axis; for more a fixed sample, and the census is an estimate
TABLE_BITS = 16
EXACT = 1 << 53  # integers below it are exact as float64
MIXERS = tuple(np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


@dataclass(frozen=True, eq=False)
class Views:
    """The contraction directions for tensors of one format."""

    sizes: tuple[int, int, int]
    directions: tuple[MaskArray, MaskArray, MaskArray]  # bit masks, by axis

    @property
    def bins(self) -> tuple[int, ...]:
        """Number of possible matrix ranks of each axis, with zero."""
        return tuple(min(size for k, size in enumerate(self.sizes) if k != axis) + 1 for axis in range(3))

    @property
    def census_size(self) -> int:
        return sum(self.bins)

    @property
    def profile_size(self) -> int:
        return sum(len(each) for each in self.directions)


@lru_cache(maxsize=32)
def views_of(format_: Format) -> Views:
    first, second, third = (_directions(size) for size in format_.sizes)
    return Views(format_.sizes, (first, second, third))


def profiles(tensors: Bits, views: Views) -> list[NDArray[np.uint8]]:
    """The profiles [tensors, directions] of each axis."""
    return [_profile(tensors, views, axis) for axis in range(3)]


def census(axis_profiles: list[NDArray[np.uint8]], views: Views) -> Counts:
    """[tensors, census_size]: for each axis the share of directions with rank 0, 1, 2, …"""
    parts = [
        (profile[:, :, None] == np.arange(bins, dtype=np.uint8)).mean(axis=1, dtype=np.float32)
        for profile, bins in zip(axis_profiles, views.bins, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def census_of_moves(tensor: Bits, views: Views) -> tuple[Counts, NDArray[np.int64]]:
    """The census after every possible move: the distinct ones [kinds, census_size], and the kind of each move [moves].

    Moves are ordered by (u, v, w) as masks from 1, w fastest. Along an axis a move changes the matrices of the
    directions x with u . x = 1, all by the same v (x) w: few ranks are computed, and the rest is a matrix product. The
    histogram of ranks is encoded there as the digits of one integer, decoded once for each kind.
    """
    numbers = [_encoded_histograms(tensor, views, axis).ravel().astype(np.uint64) for axis in range(3)]
    mixed = numbers[0] * MIXERS[0] + numbers[1] * MIXERS[1] + numbers[2] * MIXERS[2]
    _, first, kinds = np.unique(mixed, return_index=True, return_inverse=True)
    parts = [_decode_histograms(number[first], views, axis) for axis, number in enumerate(numbers)]
    return np.concatenate(parts, axis=1), kinds


def outer_bits(masks: NDArray[np.int64], sizes: tuple[int, int, int]) -> Bits:
    """The tensors [moves, A, B, C] of moves [moves, 3] as masks."""
    u, v, w = (unpacked(masks[:, k], size) for k, size in enumerate(sizes))
    product: Bits = u[:, :, None, None] & v[:, None, :, None] & w[:, None, None, :]
    return product


def unpacked(masks: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Bits [masks, size]."""
    return (masks[:, None] >> np.arange(size) & 1).astype(np.uint8)


def ranks_of(rows: list[MaskArray]) -> NDArray[np.uint8]:
    """Ranks of many matrices by elimination; rows[i] holds row i of all matrices."""
    rows = [row.copy() for row in rows]
    found = np.zeros(rows[0].shape, np.uint8)
    for place, pivot in enumerate(rows):
        found += pivot != 0
        lowest = pivot & (~pivot + np.uint32(1))
        for below in rows[place + 1 :]:
            below ^= pivot * ((below & lowest) != 0)
    return found


def _directions(size: int) -> MaskArray:
    every = np.arange(1, 1 << size, dtype=np.uint32)
    if len(every) <= MAX_DIRECTIONS:
        return every
    return np.sort(np.random.default_rng(size).choice(every, MAX_DIRECTIONS, replace=False))


def _matrices(tensors: Bits, views: Views, axis: int) -> list[MaskArray]:
    """Contractions with every direction; element i holds row i of all matrices, [tensors, directions]."""
    size = views.sizes[axis]
    moved = np.moveaxis(tensors, axis + 1, 1)  # [tensors, size, rows, columns]
    weights = np.left_shift(np.uint32(1), np.arange(moved.shape[3], dtype=np.uint32))
    packed = (moved * weights).sum(axis=3, dtype=np.uint32)  # [tensors, size, rows]
    sums = np.zeros((len(tensors), 1 << size, packed.shape[2]), np.uint32)
    for place in range(size):
        half = 1 << place
        sums[:, half : 2 * half] = sums[:, :half] ^ packed[:, place, None]
    chosen = sums[:, views.directions[axis]]
    return [np.ascontiguousarray(chosen[:, :, row]) for row in range(packed.shape[2])]


def _profile(tensors: Bits, views: Views, axis: int) -> NDArray[np.uint8]:
    return _ranks(_matrices(tensors, views, axis), _columns(views, axis))


def _columns(views: Views, axis: int) -> int:
    return [size for k, size in enumerate(views.sizes) if k != axis][1]


def _ranks(rows: list[MaskArray], columns: int) -> NDArray[np.uint8]:
    """Ranks by table lookup for small shapes, else by elimination."""
    if len(rows) * columns > TABLE_BITS:
        return ranks_of(rows)
    code = np.zeros(rows[0].shape, np.uint32)
    for place, row in enumerate(rows):
        code |= row << np.uint32(place * columns)
    return _rank_table(len(rows), columns)[code]


@lru_cache(maxsize=8)
def _rank_table(rows: int, columns: int) -> NDArray[np.uint8]:
    codes = np.arange(1 << rows * columns, dtype=np.uint32)
    last = np.uint32((1 << columns) - 1)
    return ranks_of([codes >> np.uint32(row * columns) & last for row in range(rows)])


def _encoded_histograms(tensor: Bits, views: Views, axis: int) -> NDArray[np.float64]:
    """[u, v, w]: the histogram of ranks along an axis after every move, as digits of one integer."""
    others = [k for k in range(3) if k != axis]
    rows = [row[0] for row in _matrices(tensor[None], views, axis)]  # each [directions]
    left = np.arange(1, 1 << views.sizes[others[0]], dtype=np.uint32)
    right = np.arange(1, 1 << views.sizes[others[1]], dtype=np.uint32)
    changed = [
        row[:, None, None] ^ ((left >> np.uint32(place) & 1)[:, None] * right)[None] for place, row in enumerate(rows)
    ]  # each [directions, left, right]
    columns, weights = _columns(views, axis), _rank_weights(views, axis)
    after = weights[_ranks(changed, columns)].reshape(len(rows[0]), -1)
    before = weights[_ranks(rows, columns)]  # [directions]
    touched = _overlap_parity(views, axis)  # [own, directions]
    counted = touched @ after + ((1 - touched) @ before)[:, None]
    return np.moveaxis(counted.reshape(len(touched), len(left), len(right)), 0, axis)


def _rank_weights(views: Views, axis: int) -> NDArray[np.float64]:
    """The contribution of a direction to the integer, by rank: 0 for rank 0, then 1, base, base^2, …"""
    basis, bins = len(views.directions[axis]) + 1, views.bins[axis]
    assert basis ** (bins - 1) < EXACT, "axes of this size are too large to list all moves"
    return np.array([0, *(basis**power for power in range(bins - 1))], np.float64)


def _decode_histograms(numbers: NDArray[np.uint64], views: Views, axis: int) -> Counts:
    """Decodes integers to the census of an axis, [numbers, bins]."""
    directions, bins = len(views.directions[axis]), views.bins[axis]
    basis = np.uint64(directions + 1)
    digits = [numbers // basis ** np.uint64(power) % basis for power in range(bins - 1)]
    counts = np.stack(digits, axis=1).astype(np.float32)
    none = directions - counts.sum(axis=1, keepdims=True)
    shares: Counts = (np.concatenate([none, counts], axis=1) / directions).astype(np.float32)
    return shares


@lru_cache(maxsize=32)
def _overlap_parity_table(size: int) -> NDArray[np.float64]:
    factors = np.arange(1, 1 << size, dtype=np.uint32)
    meets: NDArray[np.float64] = (np.bitwise_count(factors[:, None] & _directions(size)) & 1).astype(np.float64)
    return meets


def _overlap_parity(views: Views, axis: int) -> NDArray[np.float64]:
    """[factors, directions]: the parity of the overlap of each factor of this axis with each direction."""
    return _overlap_parity_table(views.sizes[axis])
