"""`--nproc N`: starts N ranks on this machine, waits for them, and restarts them after a failure.

The outcome is the leader's; a failure is that of the rank that failed first.
Why not torchrun: see docs/decisions/0007-own-launcher-on-one-machine.md.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.errors import RunFailed, UsageError
from palaestra.runner.failure_record import record_rank_failure
from palaestra.runner.job import TrainOutcome, outcome_on_disk
from palaestra.runner.logs import warnings_on_stderr
from palaestra.runner.ranks import Rank, forwarded_signals, started_ranks
from palaestra.runner.signals import exit_code_of
from palaestra.runs.directory import RunDirectory
from palaestra.runs.status import read_record
from palaestra.training.distributed.heartbeat import SILENT_SHARE
from palaestra.training.distributed.rank_info import read_rank_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.runner.job import TrainingJob, TrainOutcome
    from palaestra.runner.launcher import ExitReport

POLL_SECONDS = 0.05
GRACE_SECONDS = 10.0  # for the other ranks after a failure: gloo notices it in milliseconds, nccl perhaps never
LEAVE_SECONDS = 60.0  # for the other ranks after one has ended in order: ranks end together
IN_ORDER = {0, 130, 143}  # exit codes


class EndedRank(Protocol):
    """A rank that has ended, on this machine or in a cluster."""

    @property
    def number(self) -> int: ...
    @property
    def code(self) -> int | None: ...
    @property
    def ended_at(self) -> float | None: ...
    @property
    def was_killed(self) -> bool: ...


@dataclass(frozen=True)
class Cause:
    """Why a training with several ranks failed."""

    rank: int
    at: float
    message: str
    hint: str = ""
    exit_code: int = 1
    user_traceback: str = ""

    def error(self) -> RanksFailed:
        error = RanksFailed(self.message, self.hint)
        error.exit_code = self.exit_code
        error.user_traceback = self.user_traceback
        return error


def launch(job: TrainingJob, count: int) -> TrainOutcome:
    """Trains with `count` processes. Raises the failure of the one that failed first."""
    if read_rank_info(os.environ) is not None:
        raise UsageError(
            f"Invalid --nproc {count}: RANK={os.environ.get('RANK')} says that another program started this rank.",
            "Under torchrun leave out --nproc; otherwise unset RANK.",
        )
    return with_restarts(lambda job: _launch_once(job, count), job)


def _launch_once(job: TrainingJob, count: int) -> TrainOutcome:
    with started_ranks(job, count) as ranks, forwarded_signals(ranks) as received:
        _wait(ranks, job.config.distributed.peer_timeout_seconds)
        reports = [rank.exit_report() for rank in ranks]
    return outcome_of(job, ranks, reports, received, ranks[0].process.pid)


def outcome_of(
    job: TrainingJob,
    ranks: Sequence[EndedRank],
    reports: Sequence[ExitReport | None],
    received: list[int],
    leader_pid: int,
) -> TrainOutcome:
    """The outcome of ranks that have ended; raises the failure of the one that failed first."""
    cause = first_cause(ranks, reports, received)
    leader = reports[0]
    if cause is None and leader is not None and leader.directory:
        return outcome_on_disk(RunDirectory(Path(leader.directory)), leader.exit_code)
    if cause is None:  # a signal received before the run was created
        number = received[-1] if received else signal.SIGINT
        name = signal.Signals(number).name
        raise Cause(0, 0.0, f"{name} stopped the training before it began.", exit_code=exit_code_of(number)).error()
    error = cause.error()
    directory = record_rank_failure(
        job, leader_pid, cause.rank, str(error), leader_recorded_it=_recorded_by_leader(leader)
    )
    error.progress = None if directory is None else progress_of(directory)
    error.was_stopped = bool(received)
    raise error


def _wait(ranks: list[Rank], peer_timeout_seconds: float) -> None:
    """Returns when all ranks have ended. After a failure the others get some seconds to notice it themselves."""
    deadline = float("inf")
    stopped = StoppedRanks(SILENT_SHARE * peer_timeout_seconds)
    while alive := [rank for rank in ranks if not rank.has_ended()]:
        for rank in ranks:
            if rank.ended_at is not None:
                seconds = LEAVE_SECONDS if rank.code in IN_ORDER else GRACE_SECONDS
                deadline = min(deadline, rank.ended_at + seconds)
        if time.monotonic() > deadline:
            for rank in alive:
                rank.kill()
        for rank in stopped.overdue(alive):
            rank.kill()
        time.sleep(POLL_SECONDS)


class StoppedRanks:
    """Finds ranks that are stopped (SIGSTOP) while others wait for them. If all are stopped, the training is paused."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit = limit_seconds
        self._since: dict[int, float] = {}

    def overdue(self, alive: list[Rank]) -> list[Rank]:
        now = time.monotonic()
        stopped = [rank for rank in alive if rank.is_stopped()]
        if len(stopped) == len(alive):
            stopped = []
        self._since = {rank.number: self._since.get(rank.number, now) for rank in stopped}
        return [rank for rank in stopped if now - self._since[rank.number] > self._limit]


def first_cause(ranks: Sequence[EndedRank], reports: Sequence[ExitReport | None], received: list[int]) -> Cause | None:
    """None when all ended in order, or because of a signal."""
    causes = [
        cause
        for rank, report in zip(ranks, reports, strict=True)
        if (cause := _cause_of_rank(rank, report, received)) is not None
    ]
    if causes:
        return min(causes, key=lambda cause: cause.at)
    silent = [rank.number for rank in ranks if rank.was_killed]
    for rank, report in zip(ranks, reports, strict=True):
        if report is not None and report.error:
            who = f"Rank {', '.join(map(str, silent))} stopped responding and was killed. " if silent else ""
            return Cause(silent[0] if silent else rank.number, report.at, f"{who}{report.error}", report.hint)
    return None


def _cause_of_rank(rank: EndedRank, report: ExitReport | None, received: list[int]) -> Cause | None:
    """The rank's own failure, if any: not one that another rank, a signal or the launcher caused."""
    code = rank.code
    assert code is not None, "the rank has ended"
    at = rank.ended_at or 0.0
    if report is not None:
        if not report.error or report.is_consequence:
            return None
        is_refusal = report.exit_code != 1
        message = report.error if is_refusal else f"Rank {rank.number} failed: {report.error}"
        return Cause(rank.number, report.at, message, report.hint, report.exit_code, report.user_traceback)
    if rank.was_killed or -code in received or (code in IN_ORDER and received):
        return None
    if code < 0:
        return Cause(rank.number, at, f"Rank {rank.number} was ended by {signal.Signals(-code).name}.")
    return Cause(rank.number, at, f"Rank {rank.number} ended with exit code {code} and reported nothing.")


def _recorded_by_leader(leader: ExitReport | None) -> bool:
    """Whether the leader recorded the failure of the run, and it was its own."""
    return leader is not None and bool(leader.error) and not leader.is_consequence


logger = logging.getLogger(__name__)

FAILED = 1  # exit code; others are refusals, which a restart would only repeat


@dataclass(frozen=True)
class Progress:
    """The newest checkpoint of a run."""

    run_name: str
    epoch: int = 0  # of the newest checkpoint; 0: none yet


class RanksFailed(RunFailed):
    """The failure of the rank that failed first."""

    progress: Progress | None = None  # None: there is no run yet
    was_stopped = False  # a signal requested a stop of all ranks


def progress_of(directory: RunDirectory) -> Progress:
    saved = CheckpointManager(directory).list_all_checkpoints()
    return Progress(read_record(directory).name, saved[-1].epoch if saved else 0)


def with_restarts(launch_once: Callable[[TrainingJob], TrainOutcome], job: TrainingJob) -> TrainOutcome:
    """Calls `launch_once` until it returns, at most `distributed.restarts` times again without a newer checkpoint.

    Only a `RanksFailed` that is neither a refusal nor a stop by the user leads to a restart; other errors are raised.
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
            _log_restart(error, reached, count, restarts)


def _continued(job: TrainingJob, progress: Progress | None, restart: int) -> TrainingJob:
    """The job that continues the same run from its newest checkpoint, or from the first step without one."""
    if progress is None:
        return replace(job, restart=restart)
    request = replace(job.request, name=progress.run_name)
    return replace(job, request=request, resume_only=True, restart=restart)


def _log_restart(error: RanksFailed, epoch: int, count: int, restarts: int) -> None:
    start = f"checkpoint {epoch}" if epoch else "the first step"
    with warnings_on_stderr():
        logger.warning("%s Restarting from %s (restart %d of %d).", error.message, start, count, restarts)
