"""`palaestra/TensorGame-v0`: one tensor game as a Gymnasium environment; the trainer takes many at once instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from palaestra.apps.matmul.game_batch import METADATA, TensorGameBatch, action_space, infos_of, observation_space
from palaestra.apps.matmul.game_settings import read_game_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palaestra.apps.matmul.factorization import Factorization

SEEDS = 2**63  # as many may be drawn for an episode that was given none


class TensorGameEnv(gymnasium.Env[Any, Any]):
    """Keyword arguments are those of `GameSettings`."""

    metadata = METADATA

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        self.settings = read_game_settings(settings)
        self.render_mode = render_mode
        self.observation_space = observation_space(self.settings)
        self.action_space = action_space(self.settings)
        self._batch = TensorGameBatch([self.settings], 1)
        self._seen = np.zeros((1, *self.settings.product.sizes), np.int32)

    @classmethod
    def native_batch(
        cls, world_count: int, tasks: Sequence[Mapping[str, Any]], max_episode_steps: int | None
    ) -> TensorGameBatch:
        """See `palaestra.envs.batch.OffersBatch`."""
        limit = {} if max_episode_steps is None else {"max_rank": max_episode_steps}
        return TensorGameBatch([read_game_settings({**task, **limit}) for task in tasks], world_count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        drawn = int(self.np_random.integers(SEEDS)) if seed is None else seed
        self._batch.reset([0], [drawn], [0], self._seen)
        return self._seen[0].copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Solving ends the episode; running out of moves cuts it, as a time limit does."""
        moved = self._batch.move(np.asarray(action, np.int64)[None])
        solved = bool(moved.are_solved[0])
        seen = self._batch.game.residuals[0].astype(np.int32)
        return seen, float(moved.rewards[0]), solved, bool(moved.have_ended[0]) and not solved, infos_of(moved, 0)

    def factorization(self) -> Factorization:
        """What the moves so far claim, in the product's own basis."""
        return self._batch.game.factorization(0)

    def render(self) -> Any:
        return self._batch.render(0) if self.render_mode == "rgb_array" else None

    def get_state(self) -> dict[str, Any]:
        return self._batch.capture()

    def set_state(self, state: dict[str, Any]) -> None:
        self._batch.restore(state)
