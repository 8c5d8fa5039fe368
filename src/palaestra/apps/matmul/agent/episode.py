"""One episode of the agent: planned, played in the exact game, and what is to be learned from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.agent.census import Bits, outer_bits, unpacked
from palaestra.apps.matmul.agent.demonstrations import TrainingExamples
from palaestra.apps.matmul.agent.tensor_game import TensorGame
from palaestra.apps.matmul.schemes.bit_masks import Masks, from_masks, to_masks
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.transformations import random_base, trace_form, view
from palaestra.apps.matmul.schemes.verification import verify

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent.census import Bits
    from palaestra.apps.matmul.agent.config import GameSettings
    from palaestra.apps.matmul.agent.demonstrations import Moves
    from palaestra.apps.matmul.agent.mcts import Planner
    from palaestra.apps.matmul.schemes.bit_masks import Masks
    from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers


@dataclass(frozen=True)
class Episode:
    seed: int
    moves: int
    residual: int  # entries that are left
    reward: float  # -1 for each move, and what is left, slice by slice
    scheme: Masks  # proved, in the product's own basis; what was left is completed slice by slice

    @property
    def is_solved(self) -> bool:
        return self.residual == 0


def encode_episode(episode: Episode) -> dict[str, Any]:
    return {
        "seed": episode.seed,
        "moves": episode.moves,
        "residual": episode.residual,
        "reward": episode.reward,
        "scheme": episode.scheme,
    }


def play_episode(planner: Planner, settings: GameSettings, seed: int) -> tuple[Episode, TrainingExamples]:
    """`settings.moves` is how many moves the agent has; the game itself goes on until the completion is played, too."""
    roomy = settings.model_copy(update={"max_rank": settings.moves + 3 * settings.product.naive_rank})
    game = TensorGame(roomy, 1)
    game.reset([0], [seed])
    start = game.residuals[0].astype(np.uint8)
    moves, left = planner.play(start, settings.moves)
    rest = complete_by_slices(left)
    for move in np.concatenate([moves, rest]):
        bits = [unpacked(move[k : k + 1], size) for k, size in enumerate(settings.product.sizes)]
        game.step(np.concatenate(bits, axis=1).astype(np.int64))
    scheme = verified_masks(game.factorization(0))  # proves it
    episode = Episode(seed, len(moves), int(left.sum()), -float(len(moves) + len(rest)), scheme)
    return episode, _examples(start, moves, len(rest))


def _examples(start: Bits, moves: Moves, rest: int) -> TrainingExamples:
    """Every position of the episode; its moves are worth learning when they solved it."""
    taken = outer_bits(moves, (start.shape[0], start.shape[1], start.shape[2]))
    before = np.concatenate([start[None], taken[:-1]]) if len(moves) else start[None][:0]
    tensors = np.bitwise_xor.accumulate(before, axis=0) if len(moves) else before
    remaining = np.arange(len(moves), 0, -1, dtype=np.int64) + rest
    return TrainingExamples(tensors, moves, remaining, np.full(len(moves), rest == 0))


SIDES = 8  # of each batch of lessons; to look from another one takes milliseconds


def random_equivalent(claim: Factorization, rng: np.random.Generator) -> Factorization:
    """The same scheme under a random symmetry of the product: other bases, and a turn or transposition if it fits."""
    orders = [order for order in permutations(range(3)) if _sides(view(trace_form(claim), order)) == claim.format.sides]
    x, y, z = view(trace_form(claim), orders[rng.integers(len(orders))])
    rows, inner, columns = (random_base(side, Field.GF2, rng) for side in claim.format.sides)
    u = rows.matrix @ x @ inner.inverse
    v = inner.matrix @ y @ columns.inverse
    w = (columns.matrix @ z @ rows.inverse).transpose(0, 2, 1)
    u, v, w = (np.ascontiguousarray(factor.reshape(claim.rank, -1) % 2) for factor in (u, v, w))
    return replace(claim, u=u, v=v, w=w)


def scheme_examples(schemes: list[Masks], format_: Format, count: int, rng: np.random.Generator) -> TrainingExamples:
    """Parts of the schemes, each seen from another side: a scheme without some of its rows solves what they leave."""
    chosen = [schemes[rng.integers(len(schemes))] for _ in range(min(count, SIDES))]
    seen = [to_masks(random_equivalent(from_masks(scheme, format_), rng)) for scheme in chosen]
    tensors, moves, remaining = [], [], []
    for _ in range(count):
        rows = np.array(seen[rng.integers(len(seen))], np.int64)
        kept = rng.permutation(rows)[: rng.integers(1, len(rows) + 1)]
        tensors.append(np.bitwise_xor.reduce(outer_bits(kept, format_.sizes), axis=0))
        moves.append(kept[0])
        remaining.append(len(kept))
    return TrainingExamples(np.array(tensors), np.array(moves), np.array(remaining, np.int64), np.ones(count, bool))


def complete_by_slices(left: Bits) -> Moves:
    """Moves [moves, 3] that take away all that is left [A, B, C], slice by slice along the cheapest axis."""
    ways = [_slices(np.moveaxis(left, axis, 0), axis) for axis in range(3)]
    return min(ways, key=len)


def verified_masks(claim: Factorization) -> Masks:
    """A scheme for the walk to start from: proved, its double rows gone."""
    masks = to_masks(verify(claim).claim)
    kept: dict[tuple[int, ...], list[int]] = {}
    for row in masks:
        if kept.pop(tuple(row), None) is None:
            kept[tuple(row)] = row
    return list(kept.values())


def _slices(parts: Bits, axis: int) -> Moves:
    found = []
    for place, matrix in enumerate(parts):
        for first, second in _rank_one_parts(matrix):
            pair = [first, second]
            pair.insert(axis, 1 << place)
            found.append(pair)
    return np.array(found, np.int64).reshape(-1, 3)


def _rank_one_parts(matrix: Bits) -> list[tuple[int, int]]:
    """Masks of columns and rows whose products sum to the matrix, as many as its rank."""
    rows = [int(row) for row in (matrix.astype(np.int64) << np.arange(matrix.shape[1])).sum(axis=1)]
    parts = []
    while any(rows):
        pivot = next(row for row in rows if row)
        lowest = pivot & -pivot
        column = sum(1 << place for place, row in enumerate(rows) if row & lowest)
        rows = [row ^ pivot if row & lowest else row for row in rows]
        parts.append((column, pivot))
    return parts


def _sides(factors: tuple[Integers, ...]) -> tuple[int, ...]:
    return tuple(factor.shape[1] for factor in factors)
