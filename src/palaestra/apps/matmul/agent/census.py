"""What a tensor over gf2 looks like from every direction, whatever the basis.

A tensor [A, B, C] contracted with a vector x along one axis is a matrix. Its rank, for every x that is not zero, is the
*profile* of that axis. Another basis of that axis permutes the profile, other bases of the two others leave it alone;
so how often each rank occurs, the *census*, does not depend on the basis at all. Nor does the tensor's rank, which is
why a network that shall guess it is shown the census: a sum of R products u (x) v (x) w has a profile of at most
R * 2^(size - 1) together, since u . x = 1 for half of all x.
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
Words = NDArray[np.uint32]  # bit masks
MOST_DIRECTIONS = 63  # of an axis; beyond that a fixed choice of so many, and the census is an estimate
TABLE_BITS = 16
EXACT = 1 << 53  # whole numbers below it are exact as floats
MIXERS = tuple(np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


@dataclass(frozen=True, eq=False)
class Views:
    """The directions in which tensors of one format are looked at."""

    sizes: tuple[int, int, int]
    directions: tuple[Words, Words, Words]  # of each axis, as masks

    @property
    def bins(self) -> tuple[int, ...]:
        """Ranks that a matrix of each axis can have, zero among them."""
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
    """For each axis the ranks [tensors, directions]."""
    return [_profile(tensors, views, axis) for axis in range(3)]


def census(seen: list[NDArray[np.uint8]], views: Views) -> Counts:
    """[tensors, census_size]: for each axis the share of directions with rank 0, 1, 2, …"""
    parts = [
        (profile[:, :, None] == np.arange(bins, dtype=np.uint8)).mean(axis=1, dtype=np.float32)
        for profile, bins in zip(seen, views.bins, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def census_of_moves(tensor: Bits, views: Views) -> tuple[Counts, NDArray[np.int64]]:
    """The census after every move there is: the different ones [kinds, census_size], and of each move [moves] its kind.

    Moves are counted as u, v and w are, as masks from 1, w the fastest. Along one axis a move changes the matrices of
    the directions x with u . x = 1, all by the same v (x) w: so few ranks are worked out, and the rest is a product of
    matrices. How often each rank occurs is written as one number there, a digit for each rank, and taken apart at the
    end for one move of each kind.
    """
    numbers = [_numbers_along(tensor, views, axis).ravel().astype(np.uint64) for axis in range(3)]
    mixed = numbers[0] * MIXERS[0] + numbers[1] * MIXERS[1] + numbers[2] * MIXERS[2]
    _, first, kinds = np.unique(mixed, return_index=True, return_inverse=True)
    parts = [_digits(number[first], views, axis) for axis, number in enumerate(numbers)]
    return np.concatenate(parts, axis=1), kinds


def outer_bits(masks: NDArray[np.int64], sizes: tuple[int, int, int]) -> Bits:
    """[moves, A, B, C] of the moves [moves, 3], given as masks."""
    u, v, w = (unpacked(masks[:, k], size) for k, size in enumerate(sizes))
    product: Bits = u[:, :, None, None] & v[:, None, :, None] & w[:, None, None, :]
    return product


def unpacked(masks: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """[masks, size]"""
    return (masks[:, None] >> np.arange(size) & 1).astype(np.uint8)


def ranks_of(rows: list[Words]) -> NDArray[np.uint8]:
    """Ranks of many matrices at once; row i of all of them is `rows[i]`. Each row clears its lowest bit below it."""
    rows = [row.copy() for row in rows]
    found = np.zeros(rows[0].shape, np.uint8)
    for place, pivot in enumerate(rows):
        found += pivot != 0
        lowest = pivot & (~pivot + np.uint32(1))
        for below in rows[place + 1 :]:
            below ^= pivot * ((below & lowest) != 0)
    return found


def _directions(size: int) -> Words:
    every = np.arange(1, 1 << size, dtype=np.uint32)
    if len(every) <= MOST_DIRECTIONS:
        return every
    return np.sort(np.random.default_rng(size).choice(every, MOST_DIRECTIONS, replace=False))


def _matrices(tensors: Bits, views: Views, axis: int) -> list[Words]:
    """Contractions with every direction: row i of them, [tensors, directions]."""
    size = views.sizes[axis]
    turned = np.moveaxis(tensors, axis + 1, 1)  # [tensors, size, rows, columns]
    weights = np.left_shift(np.uint32(1), np.arange(turned.shape[3], dtype=np.uint32))
    packed = (turned * weights).sum(axis=3, dtype=np.uint32)  # [tensors, size, rows]
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


def _ranks(rows: list[Words], columns: int) -> NDArray[np.uint8]:
    """By a table where all matrices of this shape fit into one."""
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


def _numbers_along(tensor: Bits, views: Views, axis: int) -> NDArray[np.float64]:
    """[u, v, w]: how often each rank occurs along one axis after every move, as digits of one whole number."""
    others = [k for k in range(3) if k != axis]
    rows = [row[0] for row in _matrices(tensor[None], views, axis)]  # each [directions]
    left = np.arange(1, 1 << views.sizes[others[0]], dtype=np.uint32)
    right = np.arange(1, 1 << views.sizes[others[1]], dtype=np.uint32)
    changed = [
        row[:, None, None] ^ ((left >> np.uint32(place) & 1)[:, None] * right)[None] for place, row in enumerate(rows)
    ]  # each [directions, left, right]
    columns, worth = _columns(views, axis), _worth(views, axis)
    after = worth[_ranks(changed, columns)].reshape(len(rows[0]), -1)
    before = worth[_ranks(rows, columns)]  # [directions]
    touched = _meet(views, axis)  # [own, directions]
    counted = touched @ after + ((1 - touched) @ before)[:, None]
    return np.moveaxis(counted.reshape(len(touched), len(left), len(right)), 0, axis)


def _worth(views: Views, axis: int) -> NDArray[np.float64]:
    """What a direction adds to the number, by its rank: 0 for rank 0, then 1, base, base^2, …"""
    base, bins = len(views.directions[axis]) + 1, views.bins[axis]
    assert base ** (bins - 1) < EXACT, "axes of such a size are too large for all moves to be listed"
    return np.array([0, *(base**power for power in range(bins - 1))], np.float64)


def _digits(numbers: NDArray[np.uint64], views: Views, axis: int) -> Counts:
    """[numbers, bins]: the census of one axis back from its numbers."""
    directions, bins = len(views.directions[axis]), views.bins[axis]
    base = np.uint64(directions + 1)
    digits = [numbers // base ** np.uint64(power) % base for power in range(bins - 1)]
    counts = np.stack(digits, axis=1).astype(np.float32)
    none = directions - counts.sum(axis=1, keepdims=True)
    shares: Counts = (np.concatenate([none, counts], axis=1) / directions).astype(np.float32)
    return shares


@lru_cache(maxsize=32)
def _meet_table(size: int) -> NDArray[np.float64]:
    own = np.arange(1, 1 << size, dtype=np.uint32)
    meets: NDArray[np.float64] = (np.bitwise_count(own[:, None] & _directions(size)) & 1).astype(np.float64)
    return meets


def _meet(views: Views, axis: int) -> NDArray[np.float64]:
    """[own, directions]: 1 where a factor of this axis and a direction have an odd number of entries in common."""
    return _meet_table(views.sizes[axis])
