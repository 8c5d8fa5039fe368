"""An evaluation that can be watched: a tile for each process that plays. Who watches changes no result."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing, contextmanager
from math import isnan
from time import monotonic
from typing import TYPE_CHECKING, Any

import gymnasium
from pydantic import ValidationError

from palaestra.config.train import LiveConfig
from palaestra.core.errors import PalaestraError
from palaestra.envs.frame_sources import renderer_for, view_of_batch
from palaestra.evaluation.crowd import Troupe
from palaestra.rendering.buffer_paths import EVALUATE, frame_buffer_path
from palaestra.rendering.frame_buffer import FrameBufferFile, FrameBufferOwner, remove_dead_frame_buffers
from palaestra.rendering.frame_header import Numbers
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.heartbeat import Heartbeat
from palaestra.rendering.live_view import LiveView, View
from palaestra.runs.documents import read_config
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from palaestra.envs.batch import NativeBatch
    from palaestra.evaluation.player import Player
    from palaestra.rendering.offscreen import OffscreenRenderer
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

BUDGET = 0.25  # the largest share of its time that an evaluation gives to those who watch: it is there to be seen


class LiveTile:
    """The episode that is played now; an `Onlooker` of it, and the scene that is published."""

    def __init__(self, view: LiveView, slot: int = 0) -> None:
        self._view = view
        self._slot = slot
        self._steps = 0
        self._renderer: OffscreenRenderer | None = None
        self._seen: tuple[gymnasium.Env[Any, Any] | NativeBatch, float, float, int] | None = None

    def glance(
        self, playing: gymnasium.Env[Any, Any] | NativeBatch, reward: float, total_reward: float, length: int
    ) -> None:
        view = self._view
        if length:
            self._steps += 1
        elif self._steps:
            view.episodes += 1
        if monotonic() >= view.due:
            view.env_steps = self._steps
            self._seen = (playing, reward, total_reward, length)
            view.check(self)
            self._seen = None  # it is closed when its episode has ended

    def slots(self) -> Sequence[int]:
        return [self._slot]

    def describable(self, slot: int) -> None:
        """An evaluation is there to be seen, and renders by itself."""

    def numbers(self, slot: int) -> Numbers:
        return self.view(slot).numbers

    def view(self, _slot: int) -> View:
        assert self._seen is not None, "it is looked at from within a glance"
        playing, reward, total_reward, length = self._seen
        numbers = Numbers(self._steps, reward, total_reward, length)
        if isinstance(playing, gymnasium.Env):
            self._renderer = renderer_for(playing, self._renderer)
            return View(self._renderer.render(), numbers)
        view = view_of_batch(playing, 0, numbers.reward, self._steps)
        return View(view.content, numbers) if isnan(view.numbers.total_reward) else view


def _warn(reason: str) -> None:
    logger.warning("The live view is off from here on; the evaluation goes on as before. %s.", reason)


@contextmanager
def watchable(directory: RunDirectory | None, player: Player | None, players: object) -> Iterator[None]:
    """While this lasts, what `player` plays, or the processes of a `Troupe` that is not yet entered, can be watched.

    Only where there is a run to find it by; and not when another evaluation of that run is being shown.
    """
    live = None if directory is None else read_live(directory)
    if directory is None or live is None or not live.enabled or not (players is None or isinstance(players, Troupe)):
        yield
        return
    with ExitStack() as stack:
        count = players.count if isinstance(players, Troupe) else 1
        try:
            remove_dead_frame_buffers(is_alive)
            path = frame_buffer_path(directory.id, EVALUATE)
            started_at = process_started_at(os.getpid()) or 0.0
            owner = stack.enter_context(FrameBufferOwner(path, count, 3 * live.largest_side**2, started_at))
            writer = stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
        except (OSError, PalaestraError) as error:
            logger.info("This evaluation cannot be watched: %s.", error)
            yield
            return
        if isinstance(players, Troupe):
            players.lane = path
            stack.callback(lambda: writer.write_heartbeat(_last_words()))
        elif player is not None:
            view = LiveView(writer, BUDGET, live.largest_side, on_failure=_warn)
            player.onlooker = LiveTile(stack.enter_context(closing(view)))
        try:
            yield
        finally:
            if player is not None:
                player.onlooker = None


@contextmanager
def tile_in(path: Path, slot: int) -> Iterator[LiveTile | None]:
    """For one process of several: the slot that it alone writes, in a lane that another owns."""
    with ExitStack() as stack:
        try:
            lane = stack.enter_context(closing(FrameBufferFile(path)))
            writer = stack.enter_context(closing(FrameWriter(lane.descriptor, lane.about)))
        except (OSError, PalaestraError) as error:
            logger.info("Player %d cannot be watched: %s.", slot, error)
            yield None
            return
        side = int((lane.about.capacity / 3) ** 0.5)
        yield LiveTile(LiveView(writer, BUDGET, side, writes_heartbeat=slot == 0, on_failure=_warn), slot)


def read_live(directory: RunDirectory) -> LiveConfig:
    """As the run has it; as usual where it says nothing that can be understood"""
    try:
        return LiveConfig.model_validate(read_config(directory).get("live", {}))
    except (PalaestraError, ValidationError):
        return LiveConfig()


def _last_words() -> Heartbeat:
    return Heartbeat(monotonic(), 0, 0, 0, 0.0, 0.0, "closed")
