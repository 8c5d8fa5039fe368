"""Tensor games as the trainer takes them: one player in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from palaestra.apps.matmul.factor_picture import draw_factors
from palaestra.apps.matmul.game import TensorGame
from palaestra.apps.matmul.game_settings import HIGHEST, LOWEST
from palaestra.core.errors import UsageError
from palaestra.core.spaces import EnvInterface
from palaestra.envs.batch import WorldEnding
from palaestra.envs.spaces import space_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palaestra.apps.matmul.game import Moved
    from palaestra.apps.matmul.game_settings import GameSettings
    from palaestra.envs.vector import Arrays

METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}
LARGEST_ENTRY = 1 << 20


def observation_space(settings: GameSettings) -> spaces.Box:
    """What is left of the tensor, [A, B, C]."""
    if settings.field == "gf2":
        return spaces.Box(0, 1, settings.product.sizes, np.int32)
    return spaces.Box(-LARGEST_ENTRY, LARGEST_ENTRY, settings.product.sizes, np.int32)


def action_space(settings: GameSettings) -> spaces.MultiDiscrete:
    """A coefficient for each entry of u, of v and of w."""
    lowest, highest = LOWEST[settings.coefficients], HIGHEST[settings.coefficients]
    size = settings.action_size
    return spaces.MultiDiscrete([highest - lowest + 1] * size, start=[lowest] * size)


def infos_of(moved: Moved, game: int) -> dict[str, float]:
    return {
        "reward": float(moved.rewards[game]),
        "residual_norm": float(moved.residual_norms[game]),
        "rank_used": float(moved.ranks_used[game]),
        "action_valid": float(moved.are_valid[game]),
        "solved": float(moved.are_solved[game]),
    }


class TensorGameBatch:
    """See `palaestra.envs.batch.NativeBatch`."""

    agents = 1

    def __init__(self, tasks: Sequence[GameSettings], world_count: int) -> None:
        if len(set(tasks)) > 1:
            raise UsageError("The tasks of a tensor game differ.", "One format, field and limit is played at a time.")
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
        moved = self.move(actions)
        _rows(out)[:] = self.game.residuals
        rewards[:] = moved.rewards
        return [self._ending(world, moved) for world in np.flatnonzero(moved.have_ended).tolist()]

    def move(self, actions: np.ndarray) -> Moved:
        moved = self.game.step(np.asarray(actions, np.int64))
        self._returns += moved.rewards
        return moved

    def _ending(self, world: int, moved: Moved) -> WorldEnding:
        figures = {name: np.array([value]) for name, value in infos_of(moved, world).items()}
        returns, solved = self._returns[world : world + 1].copy(), bool(moved.are_solved[world])
        return WorldEnding(world, solved, int(self.game.steps[world]), returns, figures)

    def render(self, world: int) -> NDArray[np.uint8]:
        return draw_factors(self.game.factorization(world), self.game.settings.moves)

    def capture(self) -> dict[str, Any]:
        return {"game": self.game.capture(), "returns": self._returns.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.game.restore(state["game"])
        self._returns[:] = state["returns"]

    def close(self) -> None:
        """Nothing is held beyond memory."""


def _rows(out: Arrays) -> np.ndarray:
    assert isinstance(out, np.ndarray), "a tensor game has one array to see"
    return out
