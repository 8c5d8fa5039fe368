"""TensorGame: take the product's tensor away, one rank-one tensor at a time, in as few moves as possible.

Many games of one kind side by side, in whole numbers. A game is solved when every entry of what is left is zero, and
only then: neither a norm nor a tolerance decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.algebra import rank_of
from palaestra.apps.matmul.bases import Base, change_back, change_bases, random_base, standard_base
from palaestra.apps.matmul.factorization import Factorization, Integers
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.fingerprint import prime_of
from palaestra.apps.matmul.verification import product_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palaestra.apps.matmul.game_settings import GameSettings


@dataclass(frozen=True, eq=False)
class Moved:
    """What one move did in every game."""

    rewards: NDArray[np.float64]  # [games] -1 for a move; a game that is given up also pays what is left
    residual_norms: NDArray[np.float64]  # [games] root of the sum of squares; to look at, never to decide by
    ranks_used: NDArray[np.int64]  # [games] moves that took something away
    are_valid: NDArray[np.bool_]  # [games] False: a factor was nothing, and the move changed nothing
    are_solved: NDArray[np.bool_]  # [games]
    have_ended: NDArray[np.bool_]  # [games] solved, or out of moves


class TensorGame:
    def __init__(self, settings: GameSettings, count: int) -> None:
        self.settings = settings
        self.count = count
        self.field = settings.coefficients
        self._target = product_tensor(settings.product)
        size = settings.action_size
        self.residuals: Integers = np.repeat(self._target[None], count, axis=0)
        self._bases = [tuple(standard_base(size) for size in settings.product.sizes) for _ in range(count)]
        self._moves: Integers = np.zeros((count, settings.moves, size), np.int64)  # those that were valid, in order
        self.ranks_used = np.zeros(count, np.int64)
        self.steps = np.zeros(count, np.int64)

    def reset(self, games: Sequence[int], seeds: Sequence[int]) -> None:
        for game, seed in zip(games, seeds, strict=True):
            self._bases[game] = self._drawn_bases(seed)
            first, second, third = self._bases[game]
            self.residuals[game] = change_bases(self._target, (first, second, third), self.field)
            self._moves[game] = 0
            self.ranks_used[game] = self.steps[game] = 0

    def step(self, actions: Integers) -> Moved:
        """`actions` [games, A + B + C]: the coefficients of u, v and w of each game's move."""
        u, v, w = self._split(actions)
        valid: NDArray[np.bool_] = np.logical_and.reduce([part.any(axis=1) for part in (u, v, w)])
        self.residuals -= u[:, :, None, None] * v[:, None, :, None] * w[:, None, None, :]
        if self.field is Field.GF2:
            self.residuals %= 2
        for game in np.flatnonzero(valid).tolist():
            self._moves[game, self.ranks_used[game]] = actions[game]
        self.ranks_used += valid
        self.steps += 1
        flat = self.residuals.reshape(self.count, -1)
        solved: NDArray[np.bool_] = np.logical_not(flat.any(axis=1))
        ended: NDArray[np.bool_] = solved | (self.steps >= self.settings.moves)
        rewards = np.full(self.count, -1.0)
        for game in np.flatnonzero(ended & ~solved).tolist():
            rewards[game] -= slice_rank(self.residuals[game], self.field)
        norms = np.sqrt((flat.astype(np.float64) ** 2).sum(axis=1))
        return Moved(rewards, norms, self.ranks_used.copy(), valid, solved, ended)

    def factorization(self, game: int) -> Factorization:
        """The moves so far in the product's own basis: a claim, which `verify` may refuse."""
        found = self._moves[game, : self.ranks_used[game]]
        parts = zip(self._split(found), self._bases[game], strict=True)
        u, v, w = (np.ascontiguousarray(change_back(part, base, self.field)) for part, base in parts)
        field = self.field
        if field is Field.ZT and max(int(np.abs(part).max(initial=0)) for part in (u, v, w)) > 1:
            field = Field.Z  # another basis may need larger coefficients
        return Factorization(self.settings.product, field, u, v, w)

    def capture(self) -> dict[str, Any]:
        bases = [[[base.matrix.copy(), base.inverse.copy()] for base in three] for three in self._bases]
        return {
            "residuals": self.residuals.copy(),
            "bases": bases,
            "moves": self._moves.copy(),
            "ranks_used": self.ranks_used.copy(),
            "steps": self.steps.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.residuals[:] = state["residuals"]
        self._bases = [tuple(Base(matrix, inverse) for matrix, inverse in three) for three in state["bases"]]
        self._moves[:] = state["moves"]
        self.ranks_used[:] = state["ranks_used"]
        self.steps[:] = state["steps"]

    def _drawn_bases(self, seed: int) -> tuple[Base, ...]:
        sizes = self.settings.product.sizes
        if not self.settings.change_of_basis:
            return tuple(standard_base(size) for size in sizes)
        dice = np.random.default_rng(seed)
        return tuple(random_base(size, self.field, dice) for size in sizes)

    def _split(self, actions: Integers) -> list[Integers]:
        first, second, _ = self.settings.product.sizes
        return np.split(actions, [first, first + second], axis=1)


def slice_rank(tensor: Integers, field: Field) -> int:
    """So many moves are enough for what is left: each slice is a matrix, and its rank is what it costs."""
    prime = prime_of(field)
    turned = (np.moveaxis(tensor, axis, 0).tolist() for axis in range(3))
    return min(sum(rank_of(part, prime) for part in parts) for parts in turned)
