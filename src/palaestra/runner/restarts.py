"""`distributed.restarts=N`: ranks that failed start again from the last checkpoint, as if a person had typed it again.

Used by the launcher of one machine (`runner/launch.py`) and by that of Ray (`cluster/training/launch.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.errors import RunFailed
from palaestra.runner.logs import warnings_on_stderr
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.runner.job import TrainingJob
    from palaestra.runner.outcome import TrainOutcome
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

FAILED = 1  # exit code; others are refusals, which would only be repeated


@dataclass(frozen=True)
class Progress:
    """How far a run has come on disk."""

    run_name: str
    epoch: int = 0  # of the newest checkpoint; 0: none yet


class RanksFailed(RunFailed):
    """What the first of several ranks failed with."""

    progress: Progress | None = None  # None: there is no run yet
    was_stopped = False  # a signal asked the ranks to stop


def progress_of(directory: RunDirectory) -> Progress:
    saved = CheckpointManager(directory).list_all_checkpoints()
    return Progress(read_record(directory).name, saved[-1].epoch if saved else 0)


def with_restarts(launch_once: Callable[[TrainingJob], TrainOutcome], job: TrainingJob) -> TrainOutcome:
    """Call `launch_once` until it returns, at most `distributed.restarts` times more without a newer checkpoint.

    Only a `RanksFailed` that is neither a refusal nor the user's own stop leads to a restart; all else is raised.
    """
    restarts = job.config.distributed.restarts
    count = total = 0  # since the newest checkpoint, and altogether
    epoch = -1
    while True:
        try:
            return launch_once(job)
        except RanksFailed as error:
            reached = error.progress.epoch if error.progress else 0
            count = 0 if reached > epoch else count
            epoch = max(epoch, reached)
            if error.exit_code != FAILED or error.was_stopped or not restarts:
                raise
            if count == restarts:
                error.hint = f"{error.hint} It was restarted {count} times without a newer checkpoint.".strip()
                raise
            count, total = count + 1, total + 1
            job = _continued(job, error.progress, total)
            _announce(error, reached, count, restarts)


def _continued(job: TrainingJob, progress: Progress | None, restart: int) -> TrainingJob:
    """The same run, also where nobody gave it a name; from the first step where there is no checkpoint."""
    if progress is None:
        return replace(job, restart=restart)
    request = replace(job.request, name=progress.run_name)
    return replace(job, request=request, resume_only=True, restart=restart)


def _announce(error: RanksFailed, epoch: int, count: int, restarts: int) -> None:
    start = f"checkpoint {epoch}" if epoch else "the first step"
    with warnings_on_stderr():
        logger.warning("%s Restarting from %s (restart %d of %d).", error.message, start, count, restarts)
