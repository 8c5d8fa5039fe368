"""`palaestra/Arena-v0` for Gymnasium: one agent as an environment, and all agents as a vector environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from palaestra.apps.arena.ansi import world_text
from palaestra.apps.arena.batch import METADATA, ArenaBatch
from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.observe import action_space, empty_rows, feature_specs, observation_space, row_of
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.tables import REST
from palaestra.core.errors import UsageError
from palaestra.envs.vector.batch import BatchEnvs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palaestra.apps.arena.batch import Arrays
    from palaestra.apps.arena.state import WorldState
    from palaestra.envs.vector.in_process import Ending


SEEDS = 2**63  # range of random seeds


class ArenaEnv(gymnasium.Env[Any, Any]):
    """Agent 0 of one world. Further agents rest; ArenaVectorEnv and ArenaParallelEnv control all of them.

    Keyword arguments are those of `ArenaSettings`. Without a seed for `reset`, a random one is used.
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


class ArenaVectorEnv(VectorEnv[Any, Any, Any]):
    """One row per agent: `num_envs` is the total number of agents, a multiple of `agents`.

    Worlds reset in the step in which an episode ends; its last observation and its counters are in `infos`.
    """

    metadata = {**METADATA, "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  as Gymnasium has it

    def __init__(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        threads: int = 1,
        **settings: Any,
    ) -> None:
        limit = {} if max_episode_steps is None else {"max_steps": max_episode_steps}
        self.settings = read_settings({**settings, **limit})
        agents = self.settings.agents
        if num_envs < 1 or num_envs % agents:
            raise UsageError(
                f"num_envs={num_envs} is not a multiple of the {agents} agents of one world.",
                f"Try num_envs={max(1, round(num_envs / agents)) * agents}.",
            )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = observation_space(self.settings)
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._worlds = ArenaBatch([self.settings], num_envs // agents, threads)
        self._envs = BatchEnvs(self._worlds)
        self._observations = empty_rows(self.settings, num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """`seed`: one per row, or the first of them; a world uses the seed of its first agent."""
        if seed is None or isinstance(seed, int):
            super().reset(seed=seed, options=options)
        match seed:
            case None:
                seeds = self.np_random.integers(SEEDS, size=self.num_envs).tolist()
            case int():
                seeds = list(range(seed, seed + self.num_envs))
            case _:
                seeds = list(seed)
        self._envs.reset(seeds, self._observations)
        return _copied(self._observations), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        rewards, endings = self._envs.step(np.asarray(actions, np.int64), self._observations)
        cut = np.zeros(self.num_envs, bool)
        cut[[ending.env_index for ending in endings]] = True
        infos = self._final_infos(endings, cut) if endings else {}
        return _copied(self._observations), np.array(rewards, np.float64), np.zeros(self.num_envs, bool), cut, infos

    def _final_infos(self, endings: list[Ending], cut: np.ndarray) -> dict[str, Any]:
        """The same format as Gymnasium's vector environments in same-step mode."""
        final = np.full(self.num_envs, None, dtype=object)
        figures = {name: np.zeros(self.num_envs) for name in endings[0].episode.extras}
        for ending in endings:
            final[ending.env_index] = ending.final_observation
            for name, value in ending.episode.extras.items():
                figures[name][ending.env_index] = value
        masks = {f"_{name}": cut.copy() for name in figures}
        return {
            "final_obs": final,
            "_final_obs": cut.copy(),
            "final_info": {**figures, **masks},
            "_final_info": cut.copy(),
        }

    def render(self) -> tuple[Any, ...]:
        """One image per world."""
        states = (self._worlds.world_state(world) for world in range(self._worlds.world_count))
        return tuple(render_state(state, self.render_mode) for state in states)


def _copied(arrays: Arrays) -> Any:
    return {name: part.copy() for name, part in arrays.items()} if isinstance(arrays, dict) else arrays.copy()
