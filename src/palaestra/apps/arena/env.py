"""`palaestra/Arena-v0`: one agent of an arena as a Gymnasium environment; the trainer takes whole worlds instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from palaestra.apps.arena.ansi import world_text
from palaestra.apps.arena.batch import METADATA, ArenaBatch
from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.spaces import action_space, empty_rows, feature_specs, observation_space, row_of
from palaestra.apps.arena.tables import REST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palaestra.apps.arena.state import WorldState

SEEDS = 2**63  # as many may be drawn for an episode that was given none


class ArenaEnv(gymnasium.Env[Any, Any]):
    """Agent 0 of one world. With more `agents` the others rest: play those with the vector or the parallel form.

    Keyword arguments are those of `ArenaSettings`. The world's seed is the one given to `reset`, else drawn.
    """

    metadata = METADATA

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        self.settings = read_settings(settings)
        self.render_mode = render_mode
        self.observation_space = observation_space(self.settings)
        self.action_space = action_space()
        self.feature_specs = feature_specs(self.settings)
        self._batch = ArenaBatch([self.settings], 1)
        self._observations = empty_rows(self.settings, self.settings.agents)
        self._actions = np.full(self.settings.agents, REST, np.int64)
        self._rewards = np.zeros(self.settings.agents, np.float32)

    @classmethod
    def native_batch(
        cls, world_count: int, tasks: Sequence[Mapping[str, Any]], max_episode_steps: int | None
    ) -> ArenaBatch:
        """See `palaestra.envs.vector.batch.OffersBatch`."""
        limit = {} if max_episode_steps is None else {"max_steps": max_episode_steps}
        return ArenaBatch([read_settings({**task, **limit}) for task in tasks], world_count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        drawn = int(self.np_random.integers(SEEDS)) if seed is None else seed
        self._batch.reset([0], [drawn], [0], self._observations)
        return row_of(self._observations, 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._actions[0] = action
        endings = self._batch.step(self._actions, self._observations, self._rewards)
        info = {name: float(values[0]) for ending in endings for name, values in ending.extras.items()}
        return row_of(self._observations, 0), float(self._rewards[0]), False, bool(endings), info

    def render(self) -> Any:
        return render_state(self._batch.world_state(0), self.render_mode)

    def world_state(self) -> WorldState:
        return self._batch.world_state(0)

    def get_state(self) -> dict[str, Any]:
        return self._batch.capture()

    def set_state(self, state: dict[str, Any]) -> None:
        self._batch.restore(state)


def render_state(state: WorldState, mode: str | None) -> Any:
    match mode:
        case "rgb_array":
            return draw_world(state)
        case "ansi":
            return world_text(state, color=True)
        case _:
            return None
