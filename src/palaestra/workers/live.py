"""A training opens its lane, and closes it with the run; where it cannot, the run goes on without being seen."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from palaestra.contracts.errors import PalaestraError
from palaestra.envs.painter import painter_for
from palaestra.envs.publish import PublishedEnvs, Publisher
from palaestra.envs.scene import scene_of
from palaestra.frames.lane import LaneOwner, sweep_dead_lanes
from palaestra.frames.place import lane_path, role_of_rank
from palaestra.frames.writer import FrameWriter
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palaestra.training.state import TrainingState
    from palaestra.workers.session import RunSession

logger = logging.getLogger(__name__)


@contextmanager
def live_view(state: TrainingState, session: RunSession) -> Iterator[None]:
    """While this lasts, `state.envs` can be watched; each rank has a lane of its own."""
    live = state.config.live
    inner, scene = state.envs, scene_of(state.envs)
    if not live.enabled or scene is None:
        yield
        return
    role = role_of_rank(state.group.rank)

    def tell(reason: str) -> None:
        session.journal.record("frames.failed", reason=reason, role=role)

    with ExitStack() as stack:
        lane = lane_path(session.directory.id, role)
        writer = open_lane(stack, lane, min(scene.tiles, live.tiles), live.largest_side, tell)
        if writer is not None:
            painter = painter_for(scene, state.config.env, lane, live.largest_side)
            publisher = Publisher(writer, live.budget, live.largest_side, on_failure=tell, painter=painter)
            stack.enter_context(closing(publisher))
            rows = inner.count * state.group.world_size
            state.envs = PublishedEnvs(inner, scene, publisher, state.env_steps, rows)
        try:
            yield
        finally:
            state.envs = inner


def open_lane(
    stack: ExitStack, lane: Path, slots: int, largest_side: int, tell: Callable[[str], None]
) -> FrameWriter | None:
    """A lane that goes with the stack; None, and the reason told, where it cannot be made.

    The lanes of those who died are removed first: one of them may have had this name.
    """
    try:
        sweep_dead_lanes(is_alive)
        started_at = process_started_at(os.getpid()) or 0.0
        owner = LaneOwner(lane, slots, 3 * largest_side**2, started_at)
        stack.enter_context(owner)
        return stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
    except (OSError, PalaestraError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        logger.warning("This run cannot be watched, and goes on without: its lane could not be made. %s.", reason)
        tell(reason)
        return None
