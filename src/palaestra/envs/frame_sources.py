"""What viewers see of environments that are being stepped: sources of frames for `palaestra.rendering.live_view`."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from palaestra.envs.batch import BatchEnvs
from palaestra.envs.mujoco_batch import MujocoEnvs
from palaestra.envs.tasks import TaskSwitch
from palaestra.envs.vector import InProcessEnvs
from palaestra.envs.workers import WorkerEnvs
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.live_view import View
from palaestra.rendering.offscreen import OffscreenRenderer, as_pixels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.config.env import EnvConfig
    from palaestra.envs.batch import NativeBatch
    from palaestra.envs.make import AnyEnv
    from palaestra.envs.vector import VectorEnvs, VectorStep
    from palaestra.rendering.images import Pixels

COPY_FACTORY = "palaestra.envs.make:make_copy"


@runtime_checkable
class TellsState(Protocol):
    """A native batch whose worlds can be described in a few bytes, for the browser to draw."""

    def tell_state(self, world: int) -> tuple[bytes, float, int]:
        """The message; the return of the episode so far, as a mean over its players; and its steps"""
        ...


class EnvsSource:
    """Environments stepped one by one: a slot each."""

    def __init__(self, envs: InProcessEnvs | MujocoEnvs, config: EnvConfig | None = None) -> None:
        """`config`: as the environments were made; without it only this process can render them."""
        self.count = envs.count
        self.last: VectorStep | None = None
        self.env_step = 0  # of each environment
        self._envs = envs
        self._recipe = None if config is None else copy_recipe(config)
        self._renderers: dict[int, OffscreenRenderer] = {}

    def slots(self) -> Sequence[int]:
        return range(self.count)

    def numbers(self, slot: int) -> Numbers:
        total_reward, length = self._envs.standing(slot)
        reward = float(self.last.rewards[slot]) if self.last is not None and length else 0.0
        return Numbers(self.env_step, reward, total_reward, length)

    def view(self, slot: int) -> View:
        numbers = self.numbers(slot)
        renderer = self._renderers[slot] = renderer_for(self._envs.envs[slot], self._renderers.get(slot))
        return View(renderer.render(), numbers)

    def describable(self, slot: int) -> tuple[AnyEnv, Callable[[], dict[str, Any]]] | None:
        env, recipe = self._envs.envs[slot], self._recipe
        if recipe is None or isinstance(env, TaskSwitch):
            return None
        return env, lambda: recipe


class MujocoSource(EnvsSource):
    """A batch whose copies are brought up to date one by one, when they are shown"""

    def __init__(self, envs: MujocoEnvs, config: EnvConfig | None = None) -> None:
        super().__init__(envs, config)
        self._batch = envs

    def numbers(self, slot: int) -> Numbers:
        self._batch.put(slot)
        return super().numbers(slot)


class HereOnlySource:
    """Of which no other process can render anything."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.last: VectorStep | None = None
        self.env_step = 0

    def slots(self) -> Sequence[int]:
        return range(self.count)

    def describable(self, slot: int) -> None:
        """Only this process can render it."""

    def numbers(self, slot: int) -> Numbers:
        return self.view(slot).numbers

    def view(self, slot: int) -> View:
        raise NotImplementedError


class WorkersSource(HereOnlySource):
    """Environments in several processes: each is rendered where it lives, and keeps its slot."""

    def __init__(self, envs: WorkerEnvs) -> None:
        super().__init__(envs.count)
        self._envs = envs
        self._own = EnvsSource(envs.own)

    def view(self, slot: int) -> View:
        if slot < self._envs.own.count:
            self._own.last, self._own.env_step = self.last, self.env_step
            return self._own.view(slot)
        rendered = self._envs.draw(slot)
        length = rendered["length"]
        reward = float(self.last.rewards[slot]) if self.last is not None and length else 0.0
        return View(rendered["picture"], Numbers(self.env_step, reward, rendered["total_reward"], length))


class BatchSource(HereOnlySource):
    """A native batch: a slot for each of its worlds, with the mean of its players."""

    def __init__(self, envs: BatchEnvs) -> None:
        super().__init__(envs.batch.world_count)
        self._batch = envs.batch

    def view(self, slot: int) -> View:
        agents = self._batch.agents
        rewards = None if self.last is None else self.last.rewards[slot * agents : (slot + 1) * agents]
        return view_of_batch(self._batch, slot, 0.0 if rewards is None else float(np.mean(rewards)), self.env_step)


AnySource = EnvsSource | WorkersSource | BatchSource


def frame_source(envs: VectorEnvs, config: EnvConfig | None = None) -> AnySource | None:
    """None for environments of a kind that cannot be shown. `config`: as they were made"""
    if isinstance(envs, InProcessEnvs):
        return EnvsSource(envs, config)
    if isinstance(envs, MujocoEnvs):
        return MujocoSource(envs, config)
    if isinstance(envs, WorkerEnvs):
        return WorkersSource(envs)
    return BatchSource(envs) if isinstance(envs, BatchEnvs) else None


def copy_recipe(config: EnvConfig) -> dict[str, Any]:
    """How a render process makes a copy, see `palaestra.rendering.env_copy`."""
    return {"factory": COPY_FACTORY, "arguments": {"config": config.model_dump(mode="json")}}


def view_of_batch(batch: NativeBatch, world: int, reward: float, env_step: int = 0) -> View:
    if isinstance(batch, TellsState):
        message, total_reward, length = batch.tell_state(world)
        return View(message, Numbers(env_step, reward if length else 0.0, total_reward, length))
    pixels: Pixels = as_pixels(batch.render(world), batch)
    return View(pixels, Numbers(env_step, reward, nan, 0))


def renderer_for(env: AnyEnv, before: OffscreenRenderer | None = None) -> OffscreenRenderer:
    """The one from before, unless by now another environment is played."""
    shown = env.playing if isinstance(env, TaskSwitch) else env
    return before if before is not None and before.env is shown else OffscreenRenderer(shown)
