"""One process that works on a run: what it writes into `status.json` and `journal.jsonl`."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from palaestra.core.errors import RunFailed
from palaestra.core.run import RunRecord, RunState
from palaestra.runs.journal import Journal
from palaestra.runs.processes import process_started_at
from palaestra.runs.status import read_record, with_state, write_record

if TYPE_CHECKING:
    from palaestra.core.clock import Clock
    from palaestra.runner.resume import Resumed
    from palaestra.runs.directory import RunDirectory
    from palaestra.training.state import TrainingState

logger = logging.getLogger(__name__)

STATUS_SECONDS = 1.0
HEARTBEAT_SECONDS = 10.0
SCORE = "score"  # in the summary: the newest score


class Events(Protocol):
    """Where a session writes its events."""

    def record(self, event: str, *, level: str | None = None, **data: Any) -> None: ...


class RunSession:
    """The status holds what is true now and is replaced; the journal holds what happened and is appended to."""

    _directory_stat: os.stat_result | None = None  # of the directory at the start; None: not watched
    _is_gone = False  # the directory was deleted or moved

    def __init__(self, directory: RunDirectory, total_steps: int, clock: Clock) -> None:
        record = with_state(
            _as_queued(read_record(directory)),
            RunState.RUNNING,
            started_at=clock.now(),
            ended_at=None,
            updated_at=clock.now(),
            pid=os.getpid(),
            pid_started_at=process_started_at(os.getpid()),
            total_steps=total_steps,
            exit_code=None,
            failure="",
        )
        self._open(directory, clock, Journal(directory, clock), record)
        self._directory_stat = directory.path.stat()
        write_record(directory, record, durable=True)

    def _open(self, directory: RunDirectory, clock: Clock, journal: Events, record: RunRecord) -> None:
        self.directory = directory
        self._clock = clock
        self._status_at = self._heartbeat_at = clock.monotonic()
        self._began_at = clock.monotonic()
        self._is_stale = False  # status.json could not be written
        self.journal = journal
        self._record = record
        self._progress: tuple[int, int, dict[str, float]] | None = None  # epoch, step and summary that `_record` lacks

    @property
    def record(self) -> RunRecord:
        """As of the last heartbeat. Built on demand: a fast run has five hundred heartbeats a second."""
        if self._progress is not None:
            (epoch, step, summary), self._progress = self._progress, None
            kept = {SCORE: self._record.summary[SCORE]} if SCORE in self._record.summary else {}
            self._record = replace(self._record, epoch=epoch, agent_step=step, summary=kept | summary)
        return self._record

    @record.setter
    def record(self, record: RunRecord) -> None:
        self._record, self._progress = record, None

    @property
    def seconds(self) -> float:
        """Since this session began; a run has one session per start."""
        return self._clock.monotonic() - self._began_at

    def begun(
        self, state: TrainingState, resumed: Resumed | None, stepping: str = "", initial_weights: str = ""
    ) -> None:
        """Records how the session starts: from the first step or a checkpoint, with which engine and stepping."""
        common: dict[str, Any] = {
            "pid": os.getpid(),
            "total_steps": state.config.total_steps,
            "world_size": state.group.world_size,
            "engine": state.algorithm.description,
            "stepping": stepping,
        }
        self.record = replace(self.record, epoch=state.iteration, agent_step=state.env_steps)
        if resumed is None:
            begun = {"initial_weights": initial_weights} if initial_weights else {}
            self.journal.record("run.started", seed=state.config.seed, **begun, **common)
            return
        self.journal.record(
            "run.resumed",
            epoch=state.iteration,
            step=state.env_steps,
            checkpoint=resumed.checkpoint,
            exact=not resumed.why_inexact,
            reason=resumed.why_inexact,
            **common,
        )

    def record_score(self, score: float) -> None:
        """The score of the newest evaluated checkpoint; it is kept in the summary until there is a newer one."""
        self.record = replace(self.record, summary={**self.record.summary, SCORE: score})

    def heartbeat(self, epoch: int, step: int, steps_per_second: float, summary: dict[str, float]) -> None:
        """Updates progress; on disk at most once a second."""
        now = self._clock.monotonic()
        self._progress = (epoch, step, summary)
        if now - self._status_at >= STATUS_SECONDS:
            self._status_at = now
            self.check_directory()
            self._write()
        if now - self._heartbeat_at >= HEARTBEAT_SECONDS:
            self._heartbeat_at = now
            self.journal.record(
                "run.heartbeat", epoch=epoch, step=step, phase="train", steps_per_second=round(steps_per_second, 1)
            )

    def alive(self, phase: str) -> None:
        """A heartbeat during a phase without steps."""
        now = self._clock.monotonic()
        if now - self._status_at >= STATUS_SECONDS:
            self._status_at = now
            self._write()
        if now - self._heartbeat_at >= HEARTBEAT_SECONDS:
            self._heartbeat_at = now
            self.journal.record("run.heartbeat", **self._where(), phase=phase)

    def check_directory(self) -> None:
        """Raises `RunFailed` when the directory was deleted or moved: anything written from then on would be lost."""
        if self._directory_stat is None:
            return
        try:
            is_same = os.path.samestat(self.directory.path.stat(), self._directory_stat)
        except (FileNotFoundError, NotADirectoryError):
            is_same = False
        except OSError:  # a failing disk is reported where something is written
            return
        if not is_same:
            self._is_gone = True
            raise RunFailed(
                f"The run directory {self.directory.path} was deleted or moved while the run was using it.",
                "Stop a run before you remove it: palaestra runs stop NAME",
            )

    def degraded(self, reason: str) -> None:
        """Shows a problem in the status while the run continues; an empty reason clears it."""
        if self.record.failure != reason:
            self.record = replace(self.record, failure=reason)
            self._write()

    def stopping(self, reason: str) -> None:
        self.record = with_state(self.record, RunState.STOPPING)
        self._write()
        self.journal.record("run.stopping", signal=reason, epoch=self.record.epoch, step=self.record.agent_step)

    def finished(self) -> None:
        self._end(RunState.FINISHED, 0, "")
        self.journal.record("run.finished", **self._where(), seconds=round(self.seconds, 3))

    def cancelled(self, reason: str, exit_code: int) -> None:
        self._end(RunState.CANCELLED, exit_code, "")
        self.journal.record("run.cancelled", **self._where(), seconds=round(self.seconds, 3), reason=reason)

    def failed(self, error: BaseException, exit_code: int) -> None:
        message = str(error) or type(error).__name__
        self._end(RunState.FAILED, exit_code, message)
        if not self._is_gone:
            user_traceback = getattr(error, "user_traceback", "")
            further = {"traceback": user_traceback} if user_traceback else {}
            self.journal.record(
                "run.failed", **self._where(), error=message, kind=type(error).__name__, exit_code=exit_code, **further
            )

    def _where(self) -> dict[str, Any]:
        return {"epoch": self.record.epoch, "step": self.record.agent_step}

    def _end(self, state: RunState, exit_code: int, failure: str) -> None:
        self.record = with_state(self.record, state, ended_at=self._clock.now(), exit_code=exit_code, failure=failure)
        self._write(durable=True)

    def _write(self, *, durable: bool = False) -> None:
        """A full disk leaves the status as it was and does not stop the run; the warning is logged once."""
        if self._is_gone:
            return
        self.record = replace(self.record, updated_at=self._clock.now())
        try:
            write_record(self.directory, self.record, durable=durable)
            self._is_stale = False
        except OSError as error:
            if not self._is_stale:
                logger.warning("%s cannot be written: %s.", self.directory.status_file, error.strerror)
            self._is_stale = True


def _as_queued(record: RunRecord) -> RunRecord:
    """The daemon writes "running" before its worker can; the process that holds the lock is that worker."""
    return replace(record, state=RunState.QUEUED) if record.state is RunState.RUNNING else record


class LogJournal:
    """Writes events to this rank's log file."""

    def record(self, event: str, *, level: str | None = None, **data: Any) -> None:
        del level
        logger.info("%s %s", event, data)


class FollowerSession(RunSession):
    """The session of a rank other than the leader: the same states, written only to a log."""

    def __init__(self, directory: RunDirectory, total_steps: int, clock: Clock) -> None:
        record = RunRecord(
            id=directory.id,
            name=directory.id,
            kind="native",
            recipe="",
            state=RunState.RUNNING,
            created_at=clock.now(),
            total_steps=total_steps,
        )
        self._open(directory, clock, LogJournal(), record)

    def _write(self, *, durable: bool = False) -> None:
        """Only the leader writes the status."""
