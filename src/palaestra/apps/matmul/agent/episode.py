"""One episode of the agent: planned moves, played in the exact game, and the training examples from it.

A residual that the agent leaves is completed slice by slice, so that every episode ends with a verified scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.agent.census import Bits, outer_bits, unpacked
from palaestra.apps.matmul.agent.demonstrations import TrainingExamples
from palaestra.apps.matmul.agent.tensor_game import TensorGame
from palaestra.apps.matmul.schemes.bit_masks import Masks, to_masks
from palaestra.apps.matmul.schemes.verification import verify

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent.config import GameSettings
    from palaestra.apps.matmul.agent.demonstrations import Moves
    from palaestra.apps.matmul.agent.mcts import Planner
    from palaestra.apps.matmul.schemes.factorization import Factorization


@dataclass(frozen=True)
class Episode:
    seed: int
    moves: int
    residual: int  # nonzero entries left by the agent
    reward: float  # minus the moves and the slice rank of the residual
    scheme: Masks  # verified, in the standard basis, with the completion

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
    """Plays at most `settings.moves` moves, then the completion of the residual."""
    longer = settings.model_copy(update={"max_rank": settings.moves + 3 * settings.product.naive_rank})
    game = TensorGame(longer, 1)
    game.reset([0], [seed])
    start = game.residuals[0].astype(np.uint8)
    moves, residual = planner.play(start, settings.moves)
    completion = complete_by_slices(residual)
    for move in np.concatenate([moves, completion]):
        bits = [unpacked(move[k : k + 1], size) for k, size in enumerate(settings.product.sizes)]
        game.step(np.concatenate(bits, axis=1).astype(np.int64))
    scheme = verified_masks(game.factorization(0))  # verifies it
    episode = Episode(seed, len(moves), int(residual.sum()), -float(len(moves) + len(completion)), scheme)
    return episode, _examples(start, moves, len(completion))


def _examples(start: Bits, moves: Moves, completion: int) -> TrainingExamples:
    """All positions of the episode; the moves are policy targets if they solved it."""
    taken = outer_bits(moves, (start.shape[0], start.shape[1], start.shape[2]))
    before = np.concatenate([start[None], taken[:-1]]) if len(moves) else start[None][:0]
    tensors = np.bitwise_xor.accumulate(before, axis=0) if len(moves) else before
    remaining = np.arange(len(moves), 0, -1, dtype=np.int64) + completion
    return TrainingExamples(tensors, moves, remaining, np.full(len(moves), completion == 0))


def complete_by_slices(residual: Bits) -> Moves:
    """Moves [moves, 3] that complete a residual [A, B, C], slice by slice along the cheapest axis."""
    completions = [_slices(np.moveaxis(residual, axis, 0), axis) for axis in range(3)]
    return min(completions, key=len)


def verified_masks(claim: Factorization) -> Masks:
    """The masks of a verified scheme, without pairs of equal rows, which cancel over gf2."""
    masks = to_masks(verify(claim).claim)
    unpaired: dict[tuple[int, ...], list[int]] = {}
    for row in masks:
        if unpaired.pop(tuple(row), None) is None:
            unpaired[tuple(row)] = row
    return list(unpaired.values())


def _slices(parts: Bits, axis: int) -> Moves:
    found = []
    for place, matrix in enumerate(parts):
        for first, second in _rank_one_parts(matrix):
            pair = [first, second]
            pair.insert(axis, 1 << place)
            found.append(pair)
    return np.array(found, np.int64).reshape(-1, 3)


def _rank_one_parts(matrix: Bits) -> list[tuple[int, int]]:
    """Masks of columns and rows whose outer products sum to the matrix, as many as its rank."""
    rows = [int(row) for row in (matrix.astype(np.int64) << np.arange(matrix.shape[1])).sum(axis=1)]
    parts = []
    while any(rows):
        pivot = next(row for row in rows if row)
        lowest = pivot & -pivot
        column = sum(1 << place for place, row in enumerate(rows) if row & lowest)
        rows = [row ^ pivot if row & lowest else row for row in rows]
        parts.append((column, pivot))
    return parts
