"""The live view of an evaluation: a tile for each process that plays. Viewers do not change results."""

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
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.pool import PoolEvaluator
from palaestra.rendering.frame_buffer import (
    EVALUATE,
    FrameBufferFile,
    FrameBufferOwner,
    frame_buffer_path,
    remove_dead_frame_buffers,
)
from palaestra.rendering.frame_format import Heartbeat, Numbers
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import LiveView, View
from palaestra.runs.documents import read_config
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from palaestra.envs.vector.batch import NativeBatch
    from palaestra.evaluation.evaluator import Evaluator
    from palaestra.rendering.offscreen import OffscreenRenderer
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

BUDGET = 0.25  # the largest share of its time that an evaluation spends on frames


class LiveTile:
    """Publishes frames of the episode that is played; an `EpisodeViewer`."""

    def __init__(self, view: LiveView, slot: int = 0) -> None:
        self._view = view
        self._slot = slot
        self._steps = 0
        self._renderer: OffscreenRenderer | None = None
        self._current: tuple[gymnasium.Env[Any, Any] | NativeBatch, float, float, int] | None = None

    def on_step(
        self, env: gymnasium.Env[Any, Any] | NativeBatch, reward: float, total_reward: float, length: int
    ) -> None:
        view = self._view
        if length:
            self._steps += 1
        elif self._steps:
            view.episodes += 1
        if monotonic() >= view.due:
            view.env_steps = self._steps
            self._current = (env, reward, total_reward, length)
            view.check(self)
            self._current = None  # the environment is closed at the end of the episode

    def slots(self) -> Sequence[int]:
        return [self._slot]

    def describable(self, slot: int) -> None:
        """None: an evaluation renders in its own process."""

    def numbers(self, slot: int) -> Numbers:
        return self.view(slot).numbers

    def view(self, _slot: int) -> View:
        assert self._current is not None, "called from within `on_step`"
        env, reward, total_reward, length = self._current
        numbers = Numbers(self._steps, reward, total_reward, length)
        if isinstance(env, gymnasium.Env):
            self._renderer = renderer_for(env, self._renderer)
            return View(self._renderer.render(), numbers)
        view = view_of_batch(env, 0, numbers.reward, self._steps)
        return View(view.content, numbers) if isnan(view.numbers.total_reward) else view


def _warn(reason: str) -> None:
    logger.warning("The live view is off; the evaluation continues. %s.", reason)


@contextmanager
def publish_frames(directory: RunDirectory | None, evaluator: Evaluator) -> Iterator[None]:
    """Publishes frames of a local evaluator, or of a pool that is not entered yet, for the duration of the block.

    Only for checkpoints of a run, and only for one evaluation of a run at a time.
    """
    live = None if directory is None else read_live(directory)
    is_here = isinstance(evaluator, LocalEvaluator | PoolEvaluator)
    if directory is None or live is None or not live.enabled or not is_here:
        yield
        return
    with ExitStack() as stack:
        count = evaluator.count if isinstance(evaluator, PoolEvaluator) else 1
        try:
            remove_dead_frame_buffers(is_alive)
            path = frame_buffer_path(directory.id, EVALUATE)
            started_at = process_started_at(os.getpid()) or 0.0
            owner = stack.enter_context(FrameBufferOwner(path, count, 3 * live.largest_side**2, started_at))
            writer = stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
        except (OSError, PalaestraError) as error:
            logger.info("The live view of this evaluation is off: %s.", error)
            yield
            return
        if isinstance(evaluator, PoolEvaluator):
            evaluator.frame_buffer = path
            stack.callback(lambda: writer.write_heartbeat(_closing_heartbeat()))
        elif isinstance(evaluator, LocalEvaluator):
            view = LiveView(writer, BUDGET, live.largest_side, on_failure=_warn)
            evaluator.viewer = LiveTile(stack.enter_context(closing(view)))
        try:
            yield
        finally:
            if isinstance(evaluator, LocalEvaluator):
                evaluator.viewer = None


@contextmanager
def open_tile(path: Path, slot: int) -> Iterator[LiveTile | None]:
    """The tile of one process of a pool, in the frame buffer of its parent."""
    with ExitStack() as stack:
        try:
            frame_buffer = stack.enter_context(closing(FrameBufferFile(path)))
            writer = stack.enter_context(closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)))
        except (OSError, PalaestraError) as error:
            logger.info("The live view of evaluation process %d is off: %s.", slot, error)
            yield None
            return
        side = int((frame_buffer.about.capacity / 3) ** 0.5)
        yield LiveTile(LiveView(writer, BUDGET, side, writes_heartbeat=slot == 0, on_failure=_warn), slot)


def read_live(directory: RunDirectory) -> LiveConfig:
    """The settings of the run; the defaults when they cannot be read."""
    try:
        return LiveConfig.model_validate(read_config(directory).get("live", {}))
    except (PalaestraError, ValidationError):
        return LiveConfig()


def _closing_heartbeat() -> Heartbeat:
    return Heartbeat(monotonic(), 0, 0, 0, 0.0, 0.0, "closed")
