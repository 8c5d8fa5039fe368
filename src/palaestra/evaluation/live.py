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

from palaestra.config.live import LiveConfig
from palaestra.contracts.errors import PalaestraError
from palaestra.envs.publish import Publisher
from palaestra.envs.scene import View, easel_for, view_world
from palaestra.evaluation.crowd import Troupe
from palaestra.frames.beat import Beat
from palaestra.frames.lane import LaneFile, LaneOwner, sweep_dead_lanes
from palaestra.frames.place import EVALUATE, lane_path
from palaestra.frames.writer import FrameWriter
from palaestra.runs.documents import read_config
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.envs.batch import NativeBatch
    from palaestra.envs.easel import Easel
    from palaestra.evaluation.player import Player
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

BUDGET = 0.25  # the largest share of its time that an evaluation gives to those who watch: it is there to be seen


class LiveTile:
    """The episode that is played now; an `Onlooker` of it, and the scene that is published."""

    tiles = 1

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._steps = 0
        self._easel: Easel | None = None
        self._seen: tuple[gymnasium.Env[Any, Any] | NativeBatch, float, float, int] | None = None

    def glance(
        self, playing: gymnasium.Env[Any, Any] | NativeBatch, reward: float, total_reward: float, length: int
    ) -> None:
        publisher = self._publisher
        if length:
            self._steps += 1
        elif self._steps:
            publisher.episodes += 1
        if monotonic() >= publisher.due:
            publisher.env_steps = self._steps
            self._seen = (playing, reward, total_reward, length)
            publisher.look(self, self._steps)
            self._seen = None  # it is closed when its episode has ended

    def view(self, _tile: int) -> View:
        assert self._seen is not None, "it is looked at from within a glance"
        playing, reward, total_reward, length = self._seen
        if isinstance(playing, gymnasium.Env):
            self._easel = easel_for(playing, self._easel)
            return View(self._easel.draw(), reward, total_reward, length)
        view = view_world(playing, 0, reward)
        return View(view.content, reward, total_reward, length) if isnan(view.total_reward) else view


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
            sweep_dead_lanes(is_alive)
            path = lane_path(directory.id, EVALUATE)
            started_at = process_started_at(os.getpid()) or 0.0
            owner = stack.enter_context(LaneOwner(path, count, 3 * live.largest_side**2, started_at))
            writer = stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
        except (OSError, PalaestraError) as error:
            logger.info("This evaluation cannot be watched: %s.", error)
            yield
            return
        if isinstance(players, Troupe):
            players.lane = path
            stack.callback(lambda: writer.beat(_last_words()))
        elif player is not None:
            publisher = stack.enter_context(closing(Publisher(writer, BUDGET, live.largest_side)))
            player.onlooker = LiveTile(publisher)
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
            lane = stack.enter_context(closing(LaneFile(path)))
            writer = stack.enter_context(closing(FrameWriter(lane.descriptor, lane.about)))
        except (OSError, PalaestraError) as error:
            logger.info("Player %d cannot be watched: %s.", slot, error)
            yield None
            return
        side = int((lane.about.capacity / 3) ** 0.5)
        yield LiveTile(Publisher(writer, BUDGET, side, first_slot=slot))


def read_live(directory: RunDirectory) -> LiveConfig:
    """As the run has it; as usual where it says nothing that can be understood"""
    try:
        return LiveConfig.model_validate(read_config(directory).get("live", {}))
    except (PalaestraError, ValidationError):
        return LiveConfig()


def _last_words() -> Beat:
    return Beat(monotonic(), 0, 0, 0, 0.0, 0.0, "closed")
