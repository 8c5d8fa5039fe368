"""The frame buffer of a script's run, created once the number of environments is known. The launcher renders."""

from __future__ import annotations

import logging
import os
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Self

from palaestra.core.errors import PalaestraError
from palaestra.rendering.frame_buffer import TRAIN, FrameBufferOwner, remove_dead_frame_buffers
from palaestra.rendering.frame_format import Heartbeat
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from palaestra.apps.scripts.metrics import ScriptMetrics
    from palaestra.runner.session import Events

logger = logging.getLogger(__name__)

MAX_TILES = 64  # further environments are not shown
LARGEST_SIDE = 640  # pixels


class ScriptFrameBuffer:
    """Creates the frame buffer at the script's first step, when all its environments exist; removes it at the end."""

    def __init__(self, path: Path | None, journal: Events) -> None:
        """`path` None: no live view. Frame buffers of killed processes are removed first."""
        self._path = path
        self._journal = journal
        self._count = 0
        self._writer: FrameWriter | None = None
        self._stack = ExitStack()
        if path is not None:
            remove_dead_frame_buffers(is_alive)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.write_heartbeat(Heartbeat(time.monotonic(), 0, 0, 0, 0.0, 0.0, "closed"))
        self._stack.close()

    @property
    def reason_without_episodes(self) -> str:
        """Explains why a run has no episodes."""
        if not self._count:
            return "the script made no environment with gymnasium.make"
        return f"the script made {self._count} environments, and no episode ended while it ran"

    def take(self, messages: list[list[Any]], metrics: ScriptMetrics) -> None:
        for kind, *rest in messages:
            if kind == "env":
                self._count = max(self._count, int(rest[0]) + 1)
            elif kind == "live_view_failed":
                logger.warning("The live view stopped; the script continues. %s.", rest[0])
                self._journal.record("frames.failed", reason=str(rest[0]), role=TRAIN)
        if self._path is not None and self._writer is None and self._count and metrics.step > 0:
            self._open(self._path)

    def _open(self, path: Path) -> None:
        try:
            started_at = process_started_at(os.getpid()) or 0.0
            owner = FrameBufferOwner(path, min(self._count, MAX_TILES), 3 * LARGEST_SIDE**2, started_at)
            self._stack.enter_context(owner)
            self._writer = self._stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
        except (OSError, PalaestraError) as error:
            self._path = None
            logger.warning("The run continues without a live view: its frame buffer could not be created. %s.", error)
            self._journal.record("frames.failed", reason=str(error), role=TRAIN)
