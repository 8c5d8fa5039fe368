"""What the agent learns from before it has played: sums of random products, whose parts are therefore known.

None of them is the tensor that shall be solved, in whatever basis: a sum that looks like it from every direction is
left out, whether or not it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.agent.census import Bits, Counts, Views, census, outer_bits, profiles, views_of
from palaestra.apps.matmul.schemes.bit_masks import to_masks
from palaestra.apps.matmul.schemes.factorization import naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import product_tensor
from palaestra.apps.matmul.search.flip_guided_walk import FEATURES, start_guided_walk

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Format

Moves = NDArray[np.int64]  # [moves, 3] masks of u, v and w


@dataclass(frozen=True, eq=False)
class TrainingExamples:
    """Tensors, a good move in each, and how many moves are enough."""

    tensors: Bits  # [lessons, A, B, C]
    moves: Moves  # [lessons, 3]
    remaining: NDArray[np.int64]  # [lessons], the move counted
    has_policy_target: NDArray[np.bool_]  # [lessons] False: only the number is to be learned, not the move

    def __len__(self) -> int:
        return len(self.remaining)

    def select(self, which: NDArray[Any] | slice) -> TrainingExamples:
        return TrainingExamples(
            self.tensors[which], self.moves[which], self.remaining[which], self.has_policy_target[which]
        )


def target_bits(format_: Format) -> Bits:
    """[A, B, C]"""
    return product_tensor(format_).astype(np.uint8)


@lru_cache(maxsize=8)
def target_census(format_: Format) -> Counts:
    """How the tensor to be solved looks, in every basis."""
    views = views_of(format_)
    found: Counts = census(profiles(target_bits(format_)[None], views), views)[0]
    return found


def sample_synthetic(format_: Format, count: int, most_rank: int, rng: np.random.Generator) -> TrainingExamples:
    """`count` sums, or a few less where some looked like the target."""
    views = views_of(format_)
    ranks = rng.integers(1, most_rank + 1, size=count)
    moves = np.stack([rng.integers(1, 1 << size, size=(count, most_rank)) for size in views.sizes], axis=2)
    products = outer_bits(moves.reshape(-1, 3), views.sizes).reshape(count, most_rank, *views.sizes)
    used = np.arange(most_rank) < ranks[:, None]  # [count, most_rank]
    tensors = np.bitwise_xor.reduce(products * used[:, :, None, None, None].astype(np.uint8), axis=1)
    drawn = TrainingExamples(tensors, moves[:, 0], ranks, np.ones(count, bool))
    return without_target(drawn, views, target_census(format_))


def without_target(examples: TrainingExamples, views: Views, target: Counts) -> TrainingExamples:
    alike: NDArray[np.bool_] = np.all(census(profiles(examples.tensors, views), views) == target, axis=1)
    return examples.select(~alike)


def concatenate(parts: list[TrainingExamples]) -> TrainingExamples:
    return TrainingExamples(
        np.concatenate([part.tensors for part in parts]),
        np.concatenate([part.moves for part in parts]),
        np.concatenate([part.remaining for part in parts]),
        np.concatenate([part.has_policy_target for part in parts]),
    )


NEVER = (-1e6,) + (0.0,) * (len(FEATURES) - 1)  # a flip that falls
LONGEST = 60  # flips from the schoolbook


def sample_naive_rank_schemes(format_: Format, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """[schemes, rank, 3] masks, all of the schoolbook's rank; a walk that had no other way than down is left out."""
    start = to_masks(naive_factorization(format_, Field.GF2))
    found = []
    for _ in range(count):
        walk = start_guided_walk(start, NEVER, int(rng.integers(1, 2**63)))
        walk.run(int(rng.integers(0, LONGEST)), 0)
        if walk.rank == len(start):
            found.append(walk.current)
    return np.array(found, np.int64)


def naive_rank_examples(
    schemes: NDArray[np.int64], sizes: tuple[int, int, int], count: int, rng: np.random.Generator
) -> TrainingExamples:
    """Some rows of a scheme: their sum, one of them, and how many they are."""
    rank = schemes.shape[1]
    order = np.argsort(rng.random((count, rank)), axis=1)
    rows = np.take_along_axis(schemes[rng.integers(0, len(schemes), count)], order[:, :, None], axis=1)
    kept = rng.integers(1, rank + 1, count)
    used = (np.arange(rank) < kept[:, None]).astype(np.uint8)
    products = outer_bits(rows.reshape(-1, 3), sizes).reshape(count, rank, *sizes)
    tensors = np.bitwise_xor.reduce(products * used[:, :, None, None, None], axis=1)
    return TrainingExamples(tensors, rows[:, 0], kept, np.ones(count, bool))
