"""A tiny environment of many players that is stepped as a batch: `palaestra/Crowd-v0`, and an example of how to.

Every player is shown a number and should say it: reward 1 for the same number, `steps` steps, cut by time. Optimal
return `steps`, chance `steps / count`. With `shared`, each reward is the mean of its world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from palaestra.core.errors import UsageError
from palaestra.core.spaces import EnvInterface
from palaestra.envs.spaces import space_spec
from palaestra.envs.vector.batch import SeedStream, WorldEnding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palaestra.envs.vector.in_process import Arrays


class CrowdBatch:
    """Worlds of `agents` players; see `palaestra.envs.vector.batch.NativeBatch`."""

    def __init__(self, world_count: int, tasks: Sequence[Crowd]) -> None:
        self._tasks = list(tasks)
        if len({(task.agents, task.count) for task in tasks}) > 1:
            raise UsageError("The tasks of a crowd differ in agents or count.")
        self.world_count = world_count
        self.agents = tasks[0].agents
        self.metadata = Crowd.metadata
        self.interface = EnvInterface(space_spec(tasks[0].observation_space), space_spec(tasks[0].action_space))
        self._rng = [SeedStream(0)] * world_count
        self._playing = [0] * world_count
        self._taken = [0] * world_count
        self._shown: NDArray[np.int64] = np.zeros((world_count, self.agents), np.int64)
        self._returns = np.zeros((world_count, self.agents))

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        for world, seed, task in zip(worlds, seeds, tasks, strict=True):
            self._rng[world] = SeedStream(seed)
            self._playing[world] = task
            self._taken[world] = 0
            self._returns[world] = 0.0
            self._show(world, out)

    def step(self, actions: np.ndarray, out: Arrays, rewards: NDArray[np.float32]) -> list[WorldEnding]:
        right = (actions.reshape(self._shown.shape) == self._shown).astype(np.float64)  # [worlds, agents]
        endings = []
        for world in range(self.world_count):
            task = self._tasks[self._playing[world]]
            paid = np.full(self.agents, right[world].mean()) if task.shared else right[world]
            rewards[world * self.agents : (world + 1) * self.agents] = paid
            self._returns[world] += paid
            self._taken[world] += 1
            self._show(world, out)
            if self._taken[world] == task.steps:
                figures = {"world_mean": np.full(self.agents, self._returns[world].mean())}
                endings.append(WorldEnding(world, False, task.steps, self._returns[world].copy(), figures))  # noqa: FBT003
        return endings

    def _show(self, world: int, out: Arrays) -> None:
        count = self._tasks[0].count
        self._shown[world] = [self._rng[world].next() % count for _ in range(self.agents)]
        assert isinstance(out, np.ndarray), "it has one part"
        out[world * self.agents : (world + 1) * self.agents] = self._shown[world]

    def render(self, world: int) -> NDArray[np.uint8]:
        """One square of grey per player, the lighter the higher its number."""
        shades = (self._shown[world] * (255 // self._tasks[0].count)).astype(np.uint8)
        return np.repeat(np.repeat(shades[None, :, None], 16, 0), 16, 1).repeat(3, 2)

    def capture(self) -> dict[str, Any]:
        return {
            "dice": np.array([dice.state for dice in self._rng], np.uint64),
            "playing": list(self._playing),
            "taken": list(self._taken),
            "shown": self._shown.copy(),
            "returns": self._returns.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._rng = [SeedStream(int(dice)) for dice in state["dice"]]
        self._playing, self._taken = list(state["playing"]), list(state["taken"])
        self._shown, self._returns = state["shown"].copy(), state["returns"].copy()

    def close(self) -> None:
        """Nothing is held."""


class Crowd(gymnasium.Env[Any, Any]):
    """One player of it, where a single environment is asked for; the others of its world then say 0."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012  as Gymnasium has it

    def __init__(
        self, agents: int = 3, count: int = 4, steps: int = 16, *, shared: bool = False, render_mode: str | None = None
    ) -> None:
        self.agents, self.count, self.steps, self.shared = agents, count, steps, shared
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(count)
        self.action_space = spaces.Discrete(count)
        self._batch: CrowdBatch | None = None

    @classmethod
    def native_batch(
        cls, world_count: int, tasks: Sequence[Mapping[str, Any]], max_episode_steps: int | None
    ) -> CrowdBatch:
        limit = {} if max_episode_steps is None else {"steps": max_episode_steps}
        return CrowdBatch(world_count, [cls(**{**task, **limit}) for task in tasks])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._batch = CrowdBatch(1, [self])
        self._observations = np.zeros(self.agents, np.int64)
        self._batch.reset([0], [int(self.np_random.integers(2**62)) if seed is None else seed], [0], self._observations)
        return self._observations[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self._batch is not None, "it was reset"
        actions, rewards = np.zeros(self.agents, np.int64), np.zeros(self.agents, np.float32)
        actions[0] = action
        endings = self._batch.step(actions, self._observations, rewards)
        return self._observations[0], float(rewards[0]), False, bool(endings), {}

    def render(self) -> Any:
        return None if self._batch is None else self._batch.render(0)

    def get_state(self) -> Any:
        return None if self._batch is None else {"batch": self._batch.capture(), "seen": self._observations.copy()}

    def set_state(self, state: Any) -> None:
        if state is not None:
            self._batch = CrowdBatch(1, [self])
            self._batch.restore(state["batch"])
            self._observations = state["seen"].copy()


if "palaestra/Crowd-v0" not in gymnasium.registry:
    gymnasium.register("palaestra/Crowd-v0", f"{__name__}:Crowd")
