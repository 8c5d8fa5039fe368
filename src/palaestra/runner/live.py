"""The live view of a training: its frame buffer is open while the run trains. Without one the run cannot be watched."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError
from palaestra.envs.frame_sources import frame_source
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.rendering.frame_buffer import (
    FrameBufferOwner,
    frame_buffer_path,
    remove_dead_frame_buffers,
    role_of_rank,
)
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import LiveView
from palaestra.rendering.render_client import RenderClient
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palaestra.runner.session import RunSession
    from palaestra.training.state import TrainingState

logger = logging.getLogger(__name__)


@contextmanager
def live_view(state: TrainingState, session: RunSession) -> Iterator[None]:
    """`state.envs` can be watched for the duration of the block; each rank has its own frame buffer."""
    live = state.config.live
    inner, source = state.envs, frame_source(state.envs, state.config.env)
    if not live.enabled or source is None:
        yield
        return
    role = role_of_rank(state.group.rank)

    def report(reason: str) -> None:
        session.journal.record("frames.failed", reason=reason, role=role)

    def report_and_warn(reason: str) -> None:
        logger.warning("The live view is off from now on; training continues. %s.", reason)
        report(reason)

    with ExitStack() as stack:
        path = frame_buffer_path(session.directory.id, role)
        writer = open_frame_buffer(stack, path, min(source.count, live.tiles), live.largest_side, report)
        if writer is not None:
            client = RenderClient(path, _warn_that_frames_are_rendered_here, short_wait=0.0)
            view = LiveView(writer, live.budget, live.largest_side, client=client, on_failure=report_and_warn)
            stack.enter_context(closing(view))
            rows = inner.count * state.group.world_size
            state.use_envs(PublishedEnvs(inner, source, view, state.env_steps, rows))
        try:
            yield
        finally:
            state.use_envs(inner)


def _warn_that_frames_are_rendered_here(reason: str) -> None:
    logger.warning("Frames are rendered by the training process instead of a process of their own: %s.", reason)


def open_frame_buffer(
    stack: ExitStack, path: Path, slots: int, largest_side: int, report: Callable[[str], None]
) -> FrameWriter | None:
    """A frame buffer that `stack` closes; None if it cannot be created, after reporting why.

    Frame buffers of dead processes are removed first: one of them may have this name.
    """
    try:
        remove_dead_frame_buffers(is_alive)
        started_at = process_started_at(os.getpid()) or 0.0
        owner = FrameBufferOwner(path, slots, 3 * largest_side**2, started_at)
        stack.enter_context(owner)
        return stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
    except (OSError, PalaestraError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        logger.warning(
            "This run cannot be watched: its frame buffer could not be created. %s. Training continues.", reason
        )
        report(reason)
        return None
