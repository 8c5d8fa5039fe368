"""The factors of a discovery as live pictures: what the newest episode proposes, and beside it the best so far."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from palaestra.apps.matmul.factor_picture import draw_factors
from palaestra.apps.matmul.masks import from_masks
from palaestra.contracts.errors import PalaestraError
from palaestra.envs.publish import Publisher
from palaestra.envs.scene import View
from palaestra.frames.lane import LaneOwner, sweep_dead_lanes
from palaestra.frames.place import lane_path
from palaestra.frames.writer import FrameWriter
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.apps.matmul.format import Format
    from palaestra.apps.matmul.masks import Masks
    from palaestra.workers.session import RunSession

logger = logging.getLogger(__name__)

LARGEST_SIDE = 512  # pixels
BUDGET = 0.05  # share of the time that may go into drawing


class FactorView:
    """Two tiles: the newest proposal and the best. Drawn only while somebody watches."""

    tiles = 2

    def __init__(self, format_: Format, publisher: Publisher | None) -> None:
        self._format = format_
        self._publisher = publisher
        self._shown: tuple[Masks, Masks] = ([], [])
        self._reward = 0.0

    def show(self, newest: Masks, best: Masks, reward: float, step: int, episodes: int) -> None:
        self._shown, self._reward = (newest, best), reward
        publisher = self._publisher
        if publisher is not None and monotonic() >= publisher.due:
            publisher.env_steps, publisher.episodes = step, episodes
            publisher.look(self, step)

    def view(self, tile: int) -> View:
        scheme = self._shown[tile]
        picture = draw_factors(from_masks(scheme, self._format), self._format.schoolbook_rank)
        reward = self._reward if tile == 0 else -float(len(scheme))
        return View(picture, reward, reward, len(scheme))


@contextmanager
def factor_view(format_: Format, session: RunSession) -> Iterator[FactorView]:
    """For the block's duration. Where the lane cannot be made, the run goes on without being seen."""

    def tell(reason: str) -> None:
        session.journal.record("frames.failed", reason=reason, role="train")

    with ExitStack() as stack:
        publisher = None
        try:
            sweep_dead_lanes(is_alive)
            started_at = process_started_at(os.getpid()) or 0.0
            owner = LaneOwner(lane_path(session.directory.id), FactorView.tiles, 3 * LARGEST_SIDE**2, started_at)
            stack.enter_context(owner)
            writer = stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
            publisher = stack.enter_context(closing(Publisher(writer, BUDGET, LARGEST_SIDE, on_failure=tell)))
        except (OSError, PalaestraError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            logger.warning("This run cannot be watched, and goes on without: its lane could not be made. %s.", reason)
            tell(reason)
        yield FactorView(format_, publisher)
