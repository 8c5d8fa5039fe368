"""Arena as Gymnasium's vector environment: `gymnasium.make_vec("palaestra/Arena-v0", num_envs=96, agents=24)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from palaestra.apps.arena.batch import METADATA, ArenaBatch
from palaestra.apps.arena.env import SEEDS, render_state
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.spaces import action_space, empty_rows, observation_space
from palaestra.core.errors import UsageError
from palaestra.envs.vector.batch import BatchEnvs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.arena.batch import Arrays
    from palaestra.envs.vector.in_process import Ending


class ArenaVectorEnv(VectorEnv[Any, Any, Any]):
    """One row per agent: `num_envs` is agents in all, a multiple of `agents` in a world.

    An episode that ends begins anew in the same step; its last observation and figures are in `infos`.
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
        """A seed for each row, or the first of them; a world takes that of its first agent."""
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
        """As Gymnasium's own vector environments say it in their same-step mode."""
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
        """One per world"""
        states = (self._worlds.world_state(world) for world in range(self._worlds.world_count))
        return tuple(render_state(state, self.render_mode) for state in states)


def _copied(arrays: Arrays) -> Any:
    return {name: part.copy() for name, part in arrays.items()} if isinstance(arrays, dict) else arrays.copy()
