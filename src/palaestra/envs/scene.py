"""What there is to see of environments that are being stepped: a picture or a message for each, with its numbers.

Environments that train are made without a render mode, because some do more work, or other work, when they have one.
It is lent to them for as long as a picture is drawn, and stepping knows nothing of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from palaestra.contracts.errors import RunFailed
from palaestra.envs.batch import BatchEnvs
from palaestra.envs.headless import prepare_rendering
from palaestra.envs.tasks import TaskSwitch
from palaestra.envs.vector import InProcessEnvs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import gymnasium

    from palaestra.envs.batch import NativeBatch
    from palaestra.envs.make import AnyEnv
    from palaestra.envs.vector import VectorEnvs, VectorStep
    from palaestra.frames.shrink import Picture

PICTURES = "rgb_array"


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


class Scene(Protocol):
    """What a `palaestra.envs.publish.Publisher` shows."""

    tiles: int

    def view(self, tile: int) -> View: ...


class EnvsScene:
    """Environments stepped one by one: a tile each."""

    def __init__(self, envs: InProcessEnvs) -> None:
        self.tiles = envs.count
        self.last: VectorStep | None = None
        self._envs = envs

    def view(self, tile: int) -> View:
        total_reward, length = self._envs.standing(tile)
        reward = float(self.last.rewards[tile]) if self.last is not None and length else 0.0
        return View(draw(self._envs.envs[tile]), reward, total_reward, length)


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


def scene_of(envs: VectorEnvs) -> EnvsScene | WorldsScene | None:
    """None for environments of a kind that cannot be shown."""
    if isinstance(envs, InProcessEnvs):
        return EnvsScene(envs)
    return WorldsScene(envs) if isinstance(envs, BatchEnvs) else None


def view_world(batch: NativeBatch, world: int, reward: float) -> View:
    if isinstance(batch, TellsState):
        message, total_reward, length = batch.tell_state(world)
        return View(message, reward if length else 0.0, total_reward, length)
    return View(_checked(batch.render(world), batch), reward, nan, 0)


def draw(env: AnyEnv) -> Picture:
    """[height, width, 3], whatever render mode the environment was made with"""
    shown = env.playing if isinstance(env, TaskSwitch) else env
    if shown.render_mode == PICTURES:
        return _checked(shown.render(), shown)
    prepare_rendering(PICTURES)
    with _lent_render_mode(shown.unwrapped):
        return _checked(shown.render(), shown)


@contextmanager
def _lent_render_mode(env: gymnasium.Env[Any, Any]) -> Iterator[None]:
    before = env.render_mode
    env.render_mode = PICTURES
    try:
        yield
    finally:
        env.render_mode = before


def _checked(picture: Any, whose: object) -> Picture:
    if not (isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.shape[2] == 3 and picture.size):
        raise RunFailed(f"{whose} gave {type(picture).__name__} instead of a picture [height, width, 3].")
    return picture.astype(np.uint8, copy=False)
