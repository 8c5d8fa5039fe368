"""The lane of a script's run: made when its environments are known, removed when it ends. The launcher draws."""

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

TILES = 64  # at most; environments beyond are not shown
LARGEST_SIDE = 640  # pixels


class ScriptFrameBuffer:
    """How many environments there are is known only once the script has made them and takes its first step."""

    def __init__(self, path: Path | None, journal: Events) -> None:
        """None: it cannot be watched. A lane that a killed process left under this name is removed first."""
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
    def why_nothing_was_seen(self) -> str:
        """Of a run in which no episode ended."""
        if not self._count:
            return "no environment of it came from gymnasium.make"
        return f"it made {self._count} of them, and none came to an end in this time"

    def take(self, messages: list[list[Any]], ledger: ScriptMetrics) -> None:
        for kind, *rest in messages:
            if kind == "env":
                self._count = max(self._count, int(rest[0]) + 1)
            elif kind == "unseen":
                logger.warning("The live view is off from here on; the script goes on as before. %s.", rest[0])
                self._journal.record("frames.failed", reason=str(rest[0]), role=TRAIN)
        if self._path is not None and self._writer is None and self._count and ledger.step > 0:
            self._open(self._path)

    def _open(self, path: Path) -> None:
        try:
            started_at = process_started_at(os.getpid()) or 0.0
            owner = FrameBufferOwner(path, min(self._count, TILES), 3 * LARGEST_SIDE**2, started_at)
            self._stack.enter_context(owner)
            self._writer = self._stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
        except (OSError, PalaestraError) as error:
            self._path = None
            logger.warning("This run cannot be watched, and goes on without: its lane could not be made. %s.", error)
            self._journal.record("frames.failed", reason=str(error), role=TRAIN)
