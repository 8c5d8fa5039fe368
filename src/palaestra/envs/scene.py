"""What there is to see of environments that are being stepped: a picture or a message for each, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from palaestra.envs.batch import BatchEnvs
from palaestra.envs.easel import Easel, as_picture
from palaestra.envs.mujoco_batch import MujocoEnvs
from palaestra.envs.tasks import TaskSwitch
from palaestra.envs.vector import InProcessEnvs
from palaestra.envs.workers import WorkerEnvs

if TYPE_CHECKING:
    from palaestra.envs.batch import NativeBatch
    from palaestra.envs.make import AnyEnv
    from palaestra.envs.vector import VectorEnvs, VectorStep
    from palaestra.frames.shrink import Picture


@runtime_checkable
class TellsState(Protocol):
    """A native batch whose worlds can be told in a few bytes, for whoever watches to draw."""

    def tell_state(self, world: int) -> tuple[bytes, float, int]:
        """The message; the return of the episode so far, as a mean over its players; and its steps"""
        ...


@dataclass(frozen=True)
class View:
    content: Picture | bytes  # or a state message
    reward: float  # of the last step; 0 where an episode begins
    total_reward: float  # NaN where nobody keeps it
    length: int


class Sitter(NamedTuple):
    """One environment as it stands now, to be drawn"""

    env: AnyEnv
    reward: float  # of the last step; 0 where an episode begins
    total_reward: float
    length: int


class Scene(Protocol):
    """What a `palaestra.envs.publish.Publisher` shows."""

    tiles: int

    def view(self, tile: int) -> View: ...


class EnvsScene:
    """Environments stepped one by one: a tile each."""

    def __init__(self, envs: InProcessEnvs | MujocoEnvs) -> None:
        self.tiles = envs.count
        self.last: VectorStep | None = None
        self._envs = envs
        self._easels: dict[int, Easel] = {}

    def sitter(self, tile: int) -> Sitter:
        total_reward, length = self._envs.standing(tile)
        reward = float(self.last.rewards[tile]) if self.last is not None and length else 0.0
        return Sitter(self._envs.envs[tile], reward, total_reward, length)

    def view(self, tile: int) -> View:
        env, reward, total_reward, length = self.sitter(tile)
        easel = self._easels[tile] = easel_for(env, self._easels.get(tile))
        return View(easel.draw(), reward, total_reward, length)


class MujocoScene(EnvsScene):
    """A batch whose copies are brought up to date one by one, when they are looked at"""

    def __init__(self, envs: MujocoEnvs) -> None:
        super().__init__(envs)
        self._batch = envs

    def sitter(self, tile: int) -> Sitter:
        self._batch.put(tile)
        return super().sitter(tile)


class WorkersScene:
    """Environments in several processes: each is drawn where it lives, and keeps its tile."""

    def __init__(self, envs: WorkerEnvs) -> None:
        self.tiles = envs.count
        self.last: VectorStep | None = None
        self._envs = envs
        self._own = EnvsScene(envs.own)

    def view(self, tile: int) -> View:
        if tile < self._envs.own.count:
            self._own.last = self.last
            return self._own.view(tile)
        drawn = self._envs.draw(tile)
        length = drawn["length"]
        reward = float(self.last.rewards[tile]) if self.last is not None and length else 0.0
        return View(drawn["picture"], reward, drawn["total_reward"], length)


class WorldsScene:
    """A native batch: a tile for each world, with the mean of its players."""

    def __init__(self, envs: BatchEnvs) -> None:
        self.tiles = envs.batch.world_count
        self.last: VectorStep | None = None
        self._batch = envs.batch

    def view(self, tile: int) -> View:
        agents = self._batch.agents
        rewards = None if self.last is None else self.last.rewards[tile * agents : (tile + 1) * agents]
        return view_world(self._batch, tile, 0.0 if rewards is None else float(np.mean(rewards)))


AnyScene = EnvsScene | WorkersScene | WorldsScene


def scene_of(envs: VectorEnvs) -> AnyScene | None:
    """None for environments of a kind that cannot be shown."""
    if isinstance(envs, InProcessEnvs):
        return EnvsScene(envs)
    if isinstance(envs, MujocoEnvs):
        return MujocoScene(envs)
    if isinstance(envs, WorkerEnvs):
        return WorkersScene(envs)
    return WorldsScene(envs) if isinstance(envs, BatchEnvs) else None


def view_world(batch: NativeBatch, world: int, reward: float) -> View:
    if isinstance(batch, TellsState):
        message, total_reward, length = batch.tell_state(world)
        return View(message, reward if length else 0.0, total_reward, length)
    return View(as_picture(batch.render(world), batch), reward, nan, 0)


def easel_for(env: AnyEnv, before: Easel | None = None) -> Easel:
    """The one from before, unless by now another environment is played."""
    shown = env.playing if isinstance(env, TaskSwitch) else env
    return before if before is not None and before.env is shown else Easel(shown)
