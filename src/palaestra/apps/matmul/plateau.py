"""The schoolbook's scheme, many times over: walked about on the flip graph, never to a lower rank.

Parts of such schemes look like what the agent meets when it plays, which sums of random products seldom do. They show
nothing that the schoolbook does not: a flip that would make the rank fall is never taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.agent_demonstrations import Lessons
from palaestra.apps.matmul.contractions import outer_bits
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.guided_walks import FEATURES, begin_guided
from palaestra.apps.matmul.masks import to_masks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.apps.matmul.format import Format

NEVER = (-1e6,) + (0.0,) * (len(FEATURES) - 1)  # a flip that falls
LONGEST = 60  # flips from the schoolbook


def draw_plateau(format_: Format, count: int, dice: np.random.Generator) -> NDArray[np.int64]:
    """[schemes, rank, 3] masks, all of the schoolbook's rank; a walk that had no other way than down is left out."""
    start = to_masks(schoolbook(format_, Field.GF2))
    found = []
    for _ in range(count):
        walk = begin_guided(start, NEVER, int(dice.integers(1, 2**63)))
        walk.go(int(dice.integers(0, LONGEST)), 0)
        if walk.rank == len(start):
            found.append(walk.current)
    return np.array(found, np.int64)


def plateau_lessons(
    schemes: NDArray[np.int64], sizes: tuple[int, int, int], count: int, dice: np.random.Generator
) -> Lessons:
    """Some rows of a scheme: their sum, one of them, and how many they are."""
    rank = schemes.shape[1]
    order = np.argsort(dice.random((count, rank)), axis=1)
    rows = np.take_along_axis(schemes[dice.integers(0, len(schemes), count)], order[:, :, None], axis=1)
    kept = dice.integers(1, rank + 1, count)
    used = (np.arange(rank) < kept[:, None]).astype(np.uint8)
    products = outer_bits(rows.reshape(-1, 3), sizes).reshape(count, rank, *sizes)
    tensors = np.bitwise_xor.reduce(products * used[:, :, None, None, None], axis=1)
    return Lessons(tensors, rows[:, 0], kept, np.ones(count, bool))
