"""TensorGame: subtract rank-one tensors from the matrix-multiplication tensor until it is zero, in few moves.

`TensorGame` plays a batch in exact integers: a game is solved if and only if all entries of the residual are zero.
`TensorGameBatch` is the batch for the trainer, `TensorGameEnv` the Gymnasium environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from palaestra.apps.matmul.agent.config import MAX_COEFFICIENT, MIN_COEFFICIENT, read_game_settings
from palaestra.apps.matmul.schemes.factorization import Factorization
from palaestra.apps.matmul.schemes.fields import Field, matrix_rank
from palaestra.apps.matmul.schemes.fingerprint import prime_of
from palaestra.apps.matmul.schemes.formulas import draw_factors
from palaestra.apps.matmul.schemes.transformations import Basis, change_back, change_bases, random_basis, standard_basis
from palaestra.apps.matmul.schemes.verification import product_tensor
from palaestra.core.errors import UsageError
from palaestra.core.spaces import EnvInterface
from palaestra.envs.spaces import space_spec
from palaestra.envs.vector.batch import WorldEnding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palaestra.apps.matmul.agent.config import GameSettings
    from palaestra.apps.matmul.schemes.factorization import Integers
    from palaestra.envs.vector.in_process import Arrays


@dataclass(frozen=True, eq=False)
class MoveResult:
    """The result of one move in every game."""

    rewards: NDArray[np.float64]  # [games] -1 for a move; unsolved at the end: minus the slice rank of the residual
    residual_norms: NDArray[np.float64]  # [games] Frobenius norm, for information only
    ranks_used: NDArray[np.int64]  # [games] valid moves
    are_valid: NDArray[np.bool_]  # [games] False: a factor was zero, so the move had no effect
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
        self._bases = [tuple(standard_basis(size) for size in settings.product.sizes) for _ in range(count)]
        self._moves: Integers = np.zeros((count, settings.moves, size), np.int64)  # valid moves, in order
        self.ranks_used = np.zeros(count, np.int64)
        self.steps = np.zeros(count, np.int64)

    def reset(self, games: Sequence[int], seeds: Sequence[int]) -> None:
        for game, seed in zip(games, seeds, strict=True):
            self._bases[game] = self._sample_bases(seed)
            first, second, third = self._bases[game]
            self.residuals[game] = change_bases(self._target, (first, second, third), self.field)
            self._moves[game] = 0
            self.ranks_used[game] = self.steps[game] = 0

    def step(self, actions: Integers) -> MoveResult:
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
        return MoveResult(rewards, norms, self.ranks_used.copy(), valid, solved, ended)

    def factorization(self, game: int) -> Factorization:
        """The moves so far in the standard basis, unverified."""
        found = self._moves[game, : self.ranks_used[game]]
        parts = zip(self._split(found), self._bases[game], strict=True)
        u, v, w = (np.ascontiguousarray(change_back(part, basis, self.field)) for part, basis in parts)
        field = self.field
        if field is Field.ZT and max(int(np.abs(part).max(initial=0)) for part in (u, v, w)) > 1:
            field = Field.Z  # the change of basis may produce larger coefficients
        return Factorization(self.settings.product, field, u, v, w)

    def capture(self) -> dict[str, Any]:
        bases = [[[basis.matrix.copy(), basis.inverse.copy()] for basis in three] for three in self._bases]
        return {
            "residuals": self.residuals.copy(),
            "bases": bases,
            "moves": self._moves.copy(),
            "ranks_used": self.ranks_used.copy(),
            "steps": self.steps.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.residuals[:] = state["residuals"]
        self._bases = [tuple(Basis(matrix, inverse) for matrix, inverse in three) for three in state["bases"]]
        self._moves[:] = state["moves"]
        self.ranks_used[:] = state["ranks_used"]
        self.steps[:] = state["steps"]

    def _sample_bases(self, seed: int) -> tuple[Basis, ...]:
        sizes = self.settings.product.sizes
        if not self.settings.change_of_basis:
            return tuple(standard_basis(size) for size in sizes)
        rng = np.random.default_rng(seed)
        return tuple(random_basis(size, self.field, rng) for size in sizes)

    def _split(self, actions: Integers) -> list[Integers]:
        first, second, _ = self.settings.product.sizes
        return np.split(actions, [first, first + second], axis=1)


def slice_rank(tensor: Integers, field: Field) -> int:
    """An upper bound of the tensor rank: the lowest sum of the ranks of slices along an axis."""
    prime = prime_of(field)
    slices = (np.moveaxis(tensor, axis, 0).tolist() for axis in range(3))
    return min(sum(matrix_rank(part, prime) for part in parts) for parts in slices)


METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}
LARGEST_ENTRY = 1 << 20


def observation_space(settings: GameSettings) -> spaces.Box:
    """The residual tensor [A, B, C]."""
    if settings.field == "gf2":
        return spaces.Box(0, 1, settings.product.sizes, np.int32)
    return spaces.Box(-LARGEST_ENTRY, LARGEST_ENTRY, settings.product.sizes, np.int32)


def action_space(settings: GameSettings) -> spaces.MultiDiscrete:
    """A coefficient for each entry of u, v and w."""
    lowest, highest = MIN_COEFFICIENT[settings.coefficients], MAX_COEFFICIENT[settings.coefficients]
    size = settings.action_size
    return spaces.MultiDiscrete([highest - lowest + 1] * size, start=[lowest] * size)


def encode_info(result: MoveResult, game: int) -> dict[str, float]:
    return {
        "reward": float(result.rewards[game]),
        "residual_norm": float(result.residual_norms[game]),
        "rank_used": float(result.ranks_used[game]),
        "action_valid": float(result.are_valid[game]),
        "solved": float(result.are_solved[game]),
    }


class TensorGameBatch:
    """See `palaestra.envs.vector.batch.NativeBatch`."""

    agents = 1

    def __init__(self, tasks: Sequence[GameSettings], world_count: int) -> None:
        if len(set(tasks)) > 1:
            raise UsageError("The tasks of a TensorGame differ.", "All need the same format, field and limit.")
        settings = tasks[0]
        self.game = TensorGame(settings, world_count)
        self.world_count = world_count
        self.interface = EnvInterface(space_spec(observation_space(settings)), space_spec(action_space(settings)))
        self.metadata = METADATA
        self._returns = np.zeros(world_count)

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        del tasks
        self.game.reset(worlds, seeds)
        chosen = list(worlds)
        self._returns[chosen] = 0.0
        _rows(out)[chosen] = self.game.residuals[chosen]

    def step(self, actions: np.ndarray, out: Arrays, rewards: NDArray[np.float32]) -> list[WorldEnding]:
        result = self.move(actions)
        _rows(out)[:] = self.game.residuals
        rewards[:] = result.rewards
        return [self._ending(world, result) for world in np.flatnonzero(result.have_ended).tolist()]

    def move(self, actions: np.ndarray) -> MoveResult:
        result = self.game.step(np.asarray(actions, np.int64))
        self._returns += result.rewards
        return result

    def _ending(self, world: int, result: MoveResult) -> WorldEnding:
        figures = {name: np.array([value]) for name, value in encode_info(result, world).items()}
        returns, solved = self._returns[world : world + 1].copy(), bool(result.are_solved[world])
        return WorldEnding(world, solved, int(self.game.steps[world]), returns, figures)

    def render(self, world: int) -> NDArray[np.uint8]:
        return draw_factors(self.game.factorization(world), self.game.settings.moves)

    def capture(self) -> dict[str, Any]:
        return {"game": self.game.capture(), "returns": self._returns.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.game.restore(state["game"])
        self._returns[:] = state["returns"]

    def close(self) -> None:
        """Nothing to release."""


def _rows(out: Arrays) -> np.ndarray:
    assert isinstance(out, np.ndarray), "a tensor game has one observation array"
    return out


SEEDS = 2**63  # bound of seeds drawn for episodes without one


class TensorGameEnv(gymnasium.Env[Any, Any]):
    """Keyword arguments are those of `GameSettings`."""

    metadata = METADATA

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        self.settings = read_game_settings(settings)
        self.render_mode = render_mode
        self.observation_space = observation_space(self.settings)
        self.action_space = action_space(self.settings)
        self._batch = TensorGameBatch([self.settings], 1)
        self._observation = np.zeros((1, *self.settings.product.sizes), np.int32)

    @classmethod
    def native_batch(
        cls, world_count: int, tasks: Sequence[Mapping[str, Any]], max_episode_steps: int | None
    ) -> TensorGameBatch:
        """See `palaestra.envs.vector.batch.OffersBatch`."""
        limit = {} if max_episode_steps is None else {"max_rank": max_episode_steps}
        return TensorGameBatch([read_game_settings({**task, **limit}) for task in tasks], world_count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        drawn = int(self.np_random.integers(SEEDS)) if seed is None else seed
        self._batch.reset([0], [drawn], [0], self._observation)
        return self._observation[0].copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A solved game terminates; running out of moves truncates the episode."""
        result = self._batch.move(np.asarray(action, np.int64)[None])
        solved = bool(result.are_solved[0])
        observation = self._batch.game.residuals[0].astype(np.int32)
        return (
            observation,
            float(result.rewards[0]),
            solved,
            bool(result.have_ended[0]) and not solved,
            encode_info(result, 0),
        )

    def factorization(self) -> Factorization:
        """The moves so far in the standard basis, unverified."""
        return self._batch.game.factorization(0)

    def render(self) -> Any:
        return self._batch.render(0) if self.render_mode == "rgb_array" else None

    def get_state(self) -> dict[str, Any]:
        return self._batch.capture()

    def set_state(self, state: dict[str, Any]) -> None:
        self._batch.restore(state)
