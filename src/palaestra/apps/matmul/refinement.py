"""Rows told apart by what they see in the others: colours that no symmetry can change, made finer until nothing splits.

Colours are numbered by what was seen and never by the order of rows, so a scheme and its image get the same ones.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from palaestra.apps.matmul.factorization import Integers


def refined(colours: Integers, relations: Integers) -> tuple[Integers, str]:
    """The finest colours [rank] that `relations` [rank, rank] between rows give, and a word for all that was seen."""
    told = hashlib.sha256()
    colours = _numbered(colours[:, None], told)
    while True:
        neighbours = np.sort(relations * len(colours) + colours[None, :], axis=1)
        finer = _numbered(np.concatenate([colours[:, None], neighbours], axis=1), told)
        if finer.max() == colours.max():
            return finer, told.hexdigest()
        colours = finer


def with_one_apart(colours: Integers, row: int) -> Integers:
    """This row before the others of its colour."""
    split = 2 * colours + 1
    split[row] -= 1
    return split


def single_rows(colours: Integers) -> list[int]:
    """Rows with a colour of their own, by colour."""
    counts = np.bincount(colours)
    return [int(row) for row in np.argsort(colours, kind="stable") if counts[colours[row]] == 1]


def smallest_class(colours: Integers) -> list[int]:
    """The fewest rows that still share a colour; of several such, those with the lowest. None: an empty list."""
    counts = np.bincount(colours)
    shared = [(int(count), colour) for colour, count in enumerate(counts) if count > 1]
    return np.flatnonzero(colours == min(shared)[1]).tolist() if shared else []


def _numbered(seen: Integers, told: hashlib._Hash) -> Integers:
    """What each row saw, as a number: the place of it among all that was seen."""
    different, numbers, counts = np.unique(seen, axis=0, return_inverse=True, return_counts=True)
    told.update(different.tobytes())
    told.update(counts.tobytes())
    return numbers.reshape(-1).astype(np.int64)
