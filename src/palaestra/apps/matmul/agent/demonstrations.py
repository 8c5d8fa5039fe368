"""Training examples: synthetic demonstrations, parts of given schemes, and schemes of naive rank.

Synthetic demonstrations are sums of random products. A sum with the census of the target is dropped, so that none is
the target tensor in any basis. Schemes of naive rank come from walks on the flip graph that never reduce the rank: they
resemble the positions of episodes, and contain no knowledge beyond the naive scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.agent.census import Bits, Counts, Views, census, outer_bits, profiles, views_of
from palaestra.apps.matmul.schemes.bit_masks import Masks, from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.transformations import random_equivalent
from palaestra.apps.matmul.schemes.verification import product_tensor
from palaestra.apps.matmul.search.flip_guided_walk import FEATURES, start_guided_walk

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Format

Moves = NDArray[np.int64]  # [moves, 3] masks of u, v and w


@dataclass(frozen=True, eq=False)
class TrainingExamples:
    """Tensors with a policy target (a move) and a value target (moves left)."""

    tensors: Bits  # [examples, A, B, C]
    moves: Moves  # [examples, 3]
    remaining: NDArray[np.int64]  # [examples], with the move
    has_policy_target: NDArray[np.bool_]  # [examples] False: no policy target

    def __len__(self) -> int:
        return len(self.remaining)

    def select(self, which: NDArray[Any] | slice) -> TrainingExamples:
        return TrainingExamples(
            self.tensors[which], self.moves[which], self.remaining[which], self.has_policy_target[which]
        )


EQUIVALENTS = 8  # equivalent schemes for each batch: each takes milliseconds


def target_bits(format_: Format) -> Bits:
    """The target tensor [A, B, C] over gf2."""
    return product_tensor(format_).astype(np.uint8)


@lru_cache(maxsize=8)
def target_census(format_: Format) -> Counts:
    """The census of the target tensor, equal in every basis."""
    views = views_of(format_)
    found: Counts = census(profiles(target_bits(format_)[None], views), views)[0]
    return found


def sample_synthetic(format_: Format, count: int, max_rank: int, rng: np.random.Generator) -> TrainingExamples:
    """Up to `count` sums of random products; those with the census of the target are dropped."""
    views = views_of(format_)
    ranks = rng.integers(1, max_rank + 1, size=count)
    moves = np.stack([rng.integers(1, 1 << size, size=(count, max_rank)) for size in views.sizes], axis=2)
    products = outer_bits(moves.reshape(-1, 3), views.sizes).reshape(count, max_rank, *views.sizes)
    used = np.arange(max_rank) < ranks[:, None]  # [count, most_rank]
    tensors = np.bitwise_xor.reduce(products * used[:, :, None, None, None].astype(np.uint8), axis=1)
    drawn = TrainingExamples(tensors, moves[:, 0], ranks, np.ones(count, bool))
    return without_target(drawn, views, target_census(format_))


def without_target(examples: TrainingExamples, views: Views, target: Counts) -> TrainingExamples:
    is_target: NDArray[np.bool_] = np.all(census(profiles(examples.tensors, views), views) == target, axis=1)
    return examples.select(~is_target)


def concatenate(parts: list[TrainingExamples]) -> TrainingExamples:
    return TrainingExamples(
        np.concatenate([part.tensors for part in parts]),
        np.concatenate([part.moves for part in parts]),
        np.concatenate([part.remaining for part in parts]),
        np.concatenate([part.has_policy_target for part in parts]),
    )


NO_REDUCTION = (-1e6,) + (0.0,) * (len(FEATURES) - 1)  # weight of flips that reduce the rank
MAX_WALK = 60  # flips from the naive scheme


def sample_naive_rank_schemes(format_: Format, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Schemes of naive rank, masks [schemes, rank, 3]; walks that had to reduce the rank are dropped."""
    start = to_masks(naive_factorization(format_, Field.GF2))
    found = []
    for _ in range(count):
        walk = start_guided_walk(start, NO_REDUCTION, int(rng.integers(1, 2**63)))
        walk.run(int(rng.integers(0, MAX_WALK)), 0)
        if walk.rank == len(start):
            found.append(walk.current)
    return np.array(found, np.int64)


def naive_rank_examples(
    schemes: NDArray[np.int64], sizes: tuple[int, int, int], count: int, rng: np.random.Generator
) -> TrainingExamples:
    """Examples from random subsets of rows: their sum, one of them, and their number."""
    rank = schemes.shape[1]
    order = np.argsort(rng.random((count, rank)), axis=1)
    rows = np.take_along_axis(schemes[rng.integers(0, len(schemes), count)], order[:, :, None], axis=1)
    counts = rng.integers(1, rank + 1, count)
    used = (np.arange(rank) < counts[:, None]).astype(np.uint8)
    products = outer_bits(rows.reshape(-1, 3), sizes).reshape(count, rank, *sizes)
    tensors = np.bitwise_xor.reduce(products * used[:, :, None, None, None], axis=1)
    return TrainingExamples(tensors, rows[:, 0], counts, np.ones(count, bool))


def scheme_examples(schemes: list[Masks], format_: Format, count: int, rng: np.random.Generator) -> TrainingExamples:
    """Random subsets of the rows of random equivalents of the schemes."""
    chosen = [schemes[rng.integers(len(schemes))] for _ in range(min(count, EQUIVALENTS))]
    seen = [to_masks(random_equivalent(from_masks(scheme, format_), rng)) for scheme in chosen]
    tensors, moves, remaining = [], [], []
    for _ in range(count):
        rows = np.array(seen[rng.integers(len(seen))], np.int64)
        kept = rng.permutation(rows)[: rng.integers(1, len(rows) + 1)]
        tensors.append(np.bitwise_xor.reduce(outer_bits(kept, format_.sizes), axis=0))
        moves.append(kept[0])
        remaining.append(len(kept))
    return TrainingExamples(np.array(tensors), np.array(moves), np.array(remaining, np.int64), np.ones(count, bool))
