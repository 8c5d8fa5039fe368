"""Live view of a script's environments: `palaestra.rendering` with the launcher's probes as frame source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ....rendering.env_state import recipe_of
from ....rendering.frame_buffer import FrameBufferError, FrameBufferFile
from ....rendering.frame_format import Numbers
from ....rendering.frame_writer import FrameWriter
from ....rendering.live_view import LiveView, View
from ....rendering.offscreen import OffscreenRenderer
from ....rendering.render_client import RenderClient
from ....rendering.render_process import FEW_CORES, largest_side_of, usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


RETRY_SECONDS = 0.1


class ProbeSource:
    """Open environments of this process by slot."""

    def __init__(self) -> None:
        self.probes: dict[int, Any] = {}
        self._renderers: dict[int, OffscreenRenderer] = {}

    def slots(self) -> list[int]:
        return list(self.probes)

    def numbers(self, slot: int) -> Numbers:
        probe = self.probes[slot]
        return Numbers(probe.steps, probe.reward, probe.total, probe.length)

    def view(self, slot: int) -> View:
        env = self.probes[slot].env
        if slot not in self._renderers or self._renderers[slot].env is not env:
            self._renderers[slot] = OffscreenRenderer(env)
        return View(self._renderers[slot].render(), self.numbers(slot))

    def describable(self, slot: int) -> tuple[Any, Callable[[], dict[str, Any]]]:
        env = self.probes[slot].env
        return env, lambda: recipe_of(env)


def script_view(path: Path, budget: float, send: Callable[..., None]) -> ScriptView:
    """A view with a render process, shared by worker processes that are forked later."""
    only_costly = needs_every_core(usable_cores(), os.environ.get("OMP_NUM_THREADS", ""))
    client = RenderClient(path, lambda reason: send("render_process_failed", reason), only_costly=only_costly)
    return ScriptView(path, budget, send, client)


def needs_every_core(cores: int, omp_threads: str) -> bool:
    """Whether torch's threads occupy all of a machine's few cores, so that none is left for a render process."""
    threads = int(omp_threads) if omp_threads.isdecimal() else cores
    return cores <= FEW_CORES and threads >= cores


class ScriptView:
    """Renders requested environments. Opens the frame buffer once the parent, which counts them, has created it."""

    def __init__(
        self, path: Path, budget: float, send: Callable[..., None], client: RenderClient | None = None
    ) -> None:
        self.figures: Callable[[], tuple[int, int]] | None = None  # gives steps and episodes; None in a worker process
        self._path = path
        self._budget = budget
        self._send = send
        self._client = client
        self._source = ProbeSource()
        self._file: FrameBufferFile | None = None
        self._writer: FrameWriter | None = None
        self._view: LiveView | None = None
        self._owner = os.getpid()

    def check(self, probes: dict[int, Any], now: float) -> float:
        """Renders what is due; returns when to call it next. `probes`: of this process, by slot."""
        if self._view is None:
            try:
                self._view = self._open()
            except FrameBufferError:  # not created yet
                return now + RETRY_SECONDS
        self._source.probes = probes
        if self.figures is not None:
            self._view.env_steps, self._view.episodes = (max(0, figure) for figure in self.figures())
        self._view.check(self._source)
        return self._view.due

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
        elif self._client is not None:
            self._client.close()
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()

    def _open(self) -> LiveView:
        self._file = FrameBufferFile(self._path)
        writer = self._writer = FrameWriter(self._file.descriptor, self._file.about)
        budget = self._budget
        if os.getpid() != self._owner:  # a worker process: each one slows all others down
            budget, self.figures = budget / self._file.about.slot_count, None
        return LiveView(
            writer,
            budget,
            largest_side_of(writer),
            client=self._client,
            writes_heartbeat=self.figures is not None,
            on_failure=lambda reason: self._send("live_view_failed", reason),
        )
