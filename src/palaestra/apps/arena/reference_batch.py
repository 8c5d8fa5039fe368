"""Worlds of the reference implementation as a WorldBatch, for installations without the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.observe import box_view, bytes_view, scene_of, tokens_view
from palaestra.apps.arena.reference import World
from palaestra.apps.arena.tables import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.arena.batch import Arrays
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.state import WorldState

MUST_AGREE = ("agents", "view", "observation", "tokens")


class ReferenceBatch:
    """See WorldBatch. Uses one thread, whatever `threads` is."""

    def __init__(self, tasks: Sequence[ArenaSettings], world_count: int, threads: int = 1) -> None:
        del threads
        self._tasks = tuple(tasks)
        _check_tasks_agree(self._tasks)
        self.world_count = world_count
        self.agents = self._tasks[0].agents
        self._worlds: dict[int, World] = {}  # those that have been reset
        self._task_of = [0] * world_count
        self._returns = np.zeros((world_count, self.agents), np.float64)

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        for world, seed, task in zip(worlds, seeds, tasks, strict=True):
            self._worlds[world] = World(self._tasks[task], int(seed))
            self._task_of[world] = task
            self._returns[world] = 0
            self._observe(world, out)

    def step(self, actions: np.ndarray, out: Arrays, rewards: np.ndarray) -> list[int]:
        self._refuse_bad_actions(actions)
        self._require_running()
        over = []
        for number in range(self.world_count):
            world, rows = self._worlds[number], self._rows(number)
            rewards[rows] = world.step(actions[rows].tolist())
            self._returns[number] += rewards[rows]
            self._observe(number, out)
            if world.is_over:
                over.append(number)
        return over

    def step_api(self) -> None:
        """None: the reference has no compiled step API."""

    def counters(self, world: int) -> np.ndarray:
        return self._worlds[world].counters()

    def returns(self, world: int) -> np.ndarray:
        return np.array(self._returns[world])

    def world_state(self, world: int) -> WorldState:
        return self._worlds[world].state()

    def capture(self) -> dict[str, Any]:
        """A world that was never reset is an empty dictionary."""
        return {
            "tasks": list(self._task_of),
            "returns": self._returns.copy(),
            "worlds": [
                self._worlds[world].capture() if world in self._worlds else {} for world in range(self.world_count)
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        captured = state["worlds"]
        if len(captured) != self.world_count:
            raise ValueError(f"the state holds {len(captured)} worlds, and there are {self.world_count} here")
        self._task_of = [int(task) for task in state["tasks"]]
        self._returns = np.array(state["returns"], np.float64)
        self._worlds = {
            number: World.from_capture(self._tasks[self._task_of[number]], world)
            for number, world in enumerate(captured)
            if world
        }

    def _rows(self, world: int) -> slice:
        return slice(world * self.agents, (world + 1) * self.agents)

    def _observe(self, number: int, out: Arrays) -> None:
        world = self._worlds[number]
        state, settings = world.state(), world.settings
        scenes = [scene_of(state, settings, team) for team in range(settings.teams)]
        for agent in range(self.agents):
            row, observations = number * self.agents + agent, (state, settings, agent, scenes[agent % settings.teams])
            if isinstance(out, dict):
                for name, part in bytes_view(*observations).items():
                    out[name][row] = part
            elif settings.observation == "tokens":
                out[row], dropped = tokens_view(*observations)
                world.agents[agent].counters["dropped_tokens"] += dropped
            else:
                out[row] = box_view(*observations)

    def _refuse_bad_actions(self, actions: np.ndarray) -> None:
        for row in np.flatnonzero((actions < 0) | (actions >= len(ACTIONS))):
            raise ValueError(f"action {actions[row]} of row {row} is not one of 0 to {len(ACTIONS) - 1}")

    def _require_running(self) -> None:
        for number in range(self.world_count):
            if number not in self._worlds or self._worlds[number].is_over:
                raise ValueError(f"world {number} is not in an episode: reset it before the next step")


def _check_tasks_agree(tasks: tuple[ArenaSettings, ...]) -> None:
    if not tasks:
        raise ValueError("a batch of worlds needs at least one task")
    for name in MUST_AGREE:
        values = sorted({str(getattr(task, name)) for task in tasks})
        if len(values) > 1:
            raise ValueError(f"tasks in one batch must agree in {name}; here are {', '.join(values)}")
