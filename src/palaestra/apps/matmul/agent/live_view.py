"""Live view of the factors: the scheme of the newest episode and the best so far."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from palaestra.apps.matmul.schemes.bit_masks import from_masks
from palaestra.apps.matmul.schemes.formulas import draw_factors
from palaestra.core.errors import PalaestraError
from palaestra.rendering.frame_buffer import FrameBufferOwner, frame_buffer_path, remove_dead_frame_buffers
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import LiveView, View
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from palaestra.apps.matmul.schemes.bit_masks import Masks
    from palaestra.apps.matmul.schemes.factorization import Format
    from palaestra.runner.session import RunSession

logger = logging.getLogger(__name__)

LARGEST_SIDE = 512  # pixels
BUDGET = 0.05  # maximum share of time for rendering


class FactorView:
    """Two tiles: the newest scheme and the best. Rendered only while a viewer is connected."""

    tiles = 2

    def __init__(self, format_: Format, view: LiveView | None) -> None:
        self._format = format_
        self._view = view
        self._shown: tuple[Masks, Masks] = ([], [])
        self._reward, self._step = 0.0, 0

    def show(self, newest: Masks, best: Masks, reward: float, step: int, episodes: int) -> None:
        self._shown, self._reward = (newest, best), reward
        self._step = step
        view = self._view
        if view is not None and monotonic() >= view.due:
            view.env_steps, view.episodes = step, episodes
            view.check(self)

    def slots(self) -> Sequence[int]:
        return range(self.tiles)

    def describable(self, slot: int) -> None:
        """The factors are rendered in this process only."""

    def numbers(self, slot: int) -> Numbers:
        size = len(self._shown[slot])
        reward = self._reward if slot == 0 else -float(size)
        return Numbers(self._step, reward, reward, size)

    def view(self, slot: int) -> View:
        scheme = from_masks(self._shown[slot], self._format)
        return View(draw_factors(scheme, self._format.naive_rank), self.numbers(slot))


@contextmanager
def factor_view(format_: Format, session: RunSession) -> Iterator[FactorView]:
    """A live view for the duration of the block; without a frame buffer the run continues without it."""

    def record_failure(reason: str) -> None:
        session.journal.record("frames.failed", reason=reason, role="train")

    def warn(reason: str) -> None:
        logger.warning("The live view is disabled; the run continues. %s.", reason)
        record_failure(reason)

    with ExitStack() as stack:
        view = None
        try:
            remove_dead_frame_buffers(is_alive)
            started_at = process_started_at(os.getpid()) or 0.0
            owner = FrameBufferOwner(
                frame_buffer_path(session.directory.id), FactorView.tiles, 3 * LARGEST_SIDE**2, started_at
            )
            stack.enter_context(owner)
            writer = stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
            view = stack.enter_context(closing(LiveView(writer, BUDGET, LARGEST_SIDE, on_failure=warn)))
        except (OSError, PalaestraError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            logger.warning("No live view: the frame buffer could not be created. %s.", reason)
            record_failure(reason)
        yield FactorView(format_, view)
