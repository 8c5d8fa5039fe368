"""One episode of the agent: planned, played in the exact game, and what is to be learned from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.agent_demonstrations import Lessons
from palaestra.apps.matmul.bridge import completion, proposal
from palaestra.apps.matmul.contractions import outer_bits, unpacked
from palaestra.apps.matmul.game import TensorGame

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent_demonstrations import Moves
    from palaestra.apps.matmul.agent_planning import Planner
    from palaestra.apps.matmul.contractions import Bits
    from palaestra.apps.matmul.game_settings import GameSettings
    from palaestra.apps.matmul.masks import Masks


@dataclass(frozen=True)
class Played:
    seed: int
    moves: int
    residual: int  # entries that are left
    reward: float  # -1 for each move, and what is left, slice by slice
    scheme: Masks  # proved, in the product's own basis; what was left is completed slice by slice

    @property
    def is_solved(self) -> bool:
        return self.residual == 0


def encode_played(played: Played) -> dict[str, Any]:
    return {
        "seed": played.seed,
        "moves": played.moves,
        "residual": played.residual,
        "reward": played.reward,
        "scheme": played.scheme,
    }


def play_episode(planner: Planner, settings: GameSettings, seed: int) -> tuple[Played, Lessons]:
    """`settings.moves` is how many moves the agent has; the game itself goes on until the completion is played, too."""
    roomy = settings.model_copy(update={"max_rank": settings.moves + 3 * settings.product.schoolbook_rank})
    game = TensorGame(roomy, 1)
    game.reset([0], [seed])
    start = game.residuals[0].astype(np.uint8)
    moves, left = planner.play(start, settings.moves)
    rest = completion(left)
    for move in np.concatenate([moves, rest]):
        bits = [unpacked(move[k : k + 1], size) for k, size in enumerate(settings.product.sizes)]
        game.step(np.concatenate(bits, axis=1).astype(np.int64))
    scheme = proposal(game.factorization(0))  # proves it
    played = Played(seed, len(moves), int(left.sum()), -float(len(moves) + len(rest)), scheme)
    return played, _lessons(start, moves, len(rest))


def _lessons(start: Bits, moves: Moves, rest: int) -> Lessons:
    """Every position of the episode; its moves are worth learning when they solved it."""
    taken = outer_bits(moves, (start.shape[0], start.shape[1], start.shape[2]))
    before = np.concatenate([start[None], taken[:-1]]) if len(moves) else start[None][:0]
    tensors = np.bitwise_xor.accumulate(before, axis=0) if len(moves) else before
    remaining = np.arange(len(moves), 0, -1, dtype=np.int64) + rest
    return Lessons(tensors, moves, remaining, np.full(len(moves), rest == 0))
