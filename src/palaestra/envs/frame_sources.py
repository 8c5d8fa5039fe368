"""Frame sources for `palaestra.rendering.live_view`, one for every way of stepping environments."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from palaestra.envs.tasks import TaskSwitch
from palaestra.envs.vector.batch import BatchEnvs
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.mujoco_batch import MujocoEnvs
from palaestra.envs.vector.workers import WorkerEnvs
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.live_view import View
from palaestra.rendering.offscreen import OffscreenRenderer, as_pixels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.config.env import EnvConfig
    from palaestra.envs.make import AnyEnv
    from palaestra.envs.vector.batch import NativeBatch
    from palaestra.envs.vector.in_process import VectorEnvs, VectorStep
    from palaestra.rendering.images import Pixels

COPY_FACTORY = "palaestra.envs.make:make_copy"


@runtime_checkable
class HasStateMessage(Protocol):
    """A native batch whose worlds can be described in a few bytes, which the browser draws."""

    def state_message(self, world: int) -> tuple[bytes, float, int]:
        """The message, the mean return of the players so far, and the steps of the episode."""
        ...


class EnvsSource:
    """Environments stepped one by one, with a slot each."""

    def __init__(self, envs: InProcessEnvs | MujocoEnvs, config: EnvConfig | None = None) -> None:
        """`config`: of the environments; without it only this process can render them."""
        self.count = envs.count
        self.last: VectorStep | None = None
        self.env_step = 0  # of each environment
        self._envs = envs
        self._recipe = None if config is None else copy_recipe(config)
        self._renderers: dict[int, OffscreenRenderer] = {}

    def slots(self) -> Sequence[int]:
        return range(self.count)

    def numbers(self, slot: int) -> Numbers:
        total_reward, length = self._envs.episode_progress(slot)
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
    """A MuJoCo batch; an environment is updated from the batch when it is shown."""

    def __init__(self, envs: MujocoEnvs, config: EnvConfig | None = None) -> None:
        super().__init__(envs, config)
        self._batch = envs

    def numbers(self, slot: int) -> Numbers:
        self._batch.put(slot)
        return super().numbers(slot)


class LocalSource:
    """Environments that only this process can render."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.last: VectorStep | None = None
        self.env_step = 0

    def slots(self) -> Sequence[int]:
        return range(self.count)

    def describable(self, slot: int) -> None:
        """None: only this process can render it."""

    def numbers(self, slot: int) -> Numbers:
        return self.view(slot).numbers

    def view(self, slot: int) -> View:
        raise NotImplementedError


class WorkersSource(LocalSource):
    """Environments in worker processes: each is rendered in its own process, and keeps its slot."""

    def __init__(self, envs: WorkerEnvs) -> None:
        super().__init__(envs.count)
        self._envs = envs
        self._own = EnvsSource(envs.own)

    def view(self, slot: int) -> View:
        if slot < self._envs.own.count:
            self._own.last, self._own.env_step = self.last, self.env_step
            return self._own.view(slot)
        rendered = self._envs.render(slot)
        length = rendered["length"]
        reward = float(self.last.rewards[slot]) if self.last is not None and length else 0.0
        return View(rendered["image"], Numbers(self.env_step, reward, rendered["total_reward"], length))


class BatchSource(LocalSource):
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
    """The source for `envs`; None for a kind that cannot be shown. `config`: of the environments."""
    if isinstance(envs, InProcessEnvs):
        return EnvsSource(envs, config)
    if isinstance(envs, MujocoEnvs):
        return MujocoSource(envs, config)
    if isinstance(envs, WorkerEnvs):
        return WorkersSource(envs)
    return BatchSource(envs) if isinstance(envs, BatchEnvs) else None


def copy_recipe(config: EnvConfig) -> dict[str, Any]:
    """The recipe of a copy for the render process, see `palaestra.rendering.render_process`."""
    return {"factory": COPY_FACTORY, "arguments": {"config": config.model_dump(mode="json")}}


def view_of_batch(batch: NativeBatch, world: int, reward: float, env_step: int = 0) -> View:
    if isinstance(batch, HasStateMessage):
        message, total_reward, length = batch.state_message(world)
        return View(message, Numbers(env_step, reward if length else 0.0, total_reward, length))
    pixels: Pixels = as_pixels(batch.render(world), batch)
    return View(pixels, Numbers(env_step, reward, nan, 0))


def renderer_for(env: AnyEnv, before: OffscreenRenderer | None = None) -> OffscreenRenderer:
    """`before`, unless another environment is played now."""
    shown = env.playing if isinstance(env, TaskSwitch) else env
    return before if before is not None and before.env is shown else OffscreenRenderer(shown)
