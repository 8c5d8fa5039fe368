"""Arena as a parallel environment of PettingZoo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from palaestra.apps.arena.batch import METADATA, ArenaBatch
from palaestra.apps.arena.env import SEEDS, render_state
from palaestra.apps.arena.observe import action_space, empty_rows, observation_space, row_of
from palaestra.apps.arena.settings import read_settings
from palaestra.core.errors import MissingExtra

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtra("Arena's parallel form", "multi") from error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import spaces

Named = dict[str, Any]


class ArenaParallelEnv(ParallelEnv[str, Any, Any]):  # type: ignore[misc]  # PettingZoo is not typed
    """Agents `agent_0` to `agent_N`, which are all truncated at the end of the episode."""

    metadata: ClassVar[dict[str, Any]] = {**METADATA, "name": "palaestra_arena_v0", "is_parallelizable": True}

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        self.settings = read_settings(settings)
        self.render_mode = render_mode
        self.possible_agents = [f"agent_{number}" for number in range(self.settings.agents)]
        self.agents: list[str] = []
        self.observation_spaces = {name: observation_space(self.settings) for name in self.possible_agents}
        self.action_spaces = {name: action_space() for name in self.possible_agents}
        self._worlds = ArenaBatch([self.settings], 1)
        self._rows = empty_rows(self.settings, self.settings.agents)
        self._rewards = np.zeros(self.settings.agents, np.float32)
        self._generator = np.random.default_rng()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Named, Named]:
        del options
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        drawn = int(self._generator.integers(SEEDS)) if seed is None else seed
        self._worlds.reset([0], [drawn], [0], self._rows)
        self.agents = list(self.possible_agents)
        return self._observations(), {name: {} for name in self.agents}

    def step(self, actions: Mapping[str, Any]) -> tuple[Named, Named, Named, Named, Named]:
        if not self.agents:  # the episode has ended
            return {}, {}, {}, {}, {}
        taken = np.array([actions[name] for name in self.possible_agents], np.int64)
        endings = self._worlds.step(taken, self._rows, self._rewards)
        names = self.agents
        infos: Named = {name: {} for name in names}
        for ending in endings:
            for index, name in enumerate(names):
                infos[name] = {counter: float(values[index]) for counter, values in ending.extras.items()}
            self.agents = []
        rewards = dict(zip(names, self._rewards.tolist(), strict=True))
        truncations = dict.fromkeys(names, bool(endings))
        return self._observations(), rewards, dict.fromkeys(names, False), truncations, infos

    def _observations(self) -> Named:
        return {name: row_of(self._rows, index) for index, name in enumerate(self.possible_agents)}

    def render(self) -> Any:
        return render_state(self._worlds.world_state(0), self.render_mode)

    def close(self) -> None:
        self._worlds.close()
