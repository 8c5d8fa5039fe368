"""The outcome of a run whose worker has ended, written to its status and journal once."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile, NotFound, escape_controls
from palaestra.core.run import MOVES, RunRecord, RunState
from palaestra.runs.journal import Journal
from palaestra.runs.status import read_written_record, with_state, write_record

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.core.clock import Clock
    from palaestra.daemon.monitor_handle import MonitorRecord
    from palaestra.daemon.run_entry import Submission
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

EVENTS = {
    RunState.FINISHED: "run.finished",
    RunState.FAILED: "run.failed",
    RunState.CANCELLED: "run.cancelled",
    RunState.LOST: "run.lost",
}
MAX_LINES = 20
MAX_BYTES = 8192
MAX_LINE = 500


@dataclass(frozen=True)
class RunOutcome:
    """Final state of a run."""

    state: RunState
    cause: str  # empty for a regular end
    exit_code: int | None  # as in a shell: 128 + the number of a signal
    signal: str = ""


def determine_outcome(
    monitor_record: MonitorRecord | None, submission: Submission, last_lines: list[str], *, is_stopped: bool = False
) -> RunOutcome:
    """Derives the outcome from the record of its monitor. `last_lines` are the last lines of output."""
    if (
        monitor_record is None
        or monitor_record.attempt != submission.attempt
        or not monitor_record.has_ended
        or monitor_record.exit_code is None
    ):
        gone = "the process is gone and its exit code is unknown (killed, or the machine stopped)"
        return RunOutcome(RunState.CANCELLED, "", None) if is_stopped else RunOutcome(RunState.LOST, gone, None)
    code = monitor_record.exit_code
    name = signal.Signals(-code).name if code < 0 else ""
    shell_code = 128 - code if code < 0 else code
    if monitor_record.is_out_of_memory:
        limit = submission.options.memory_mb
        return RunOutcome(
            RunState.FAILED, f"out of memory: {monitor_record.used_mb} MB used, {limit} MB allowed", shell_code, name
        )
    if monitor_record.is_stopping:
        killed = "killed, because it did not stop within the grace period" if name == "SIGKILL" else ""
        return RunOutcome(RunState.CANCELLED, killed, shell_code, name)
    if code == 0:
        return RunOutcome(RunState.FINISHED, "", 0)
    if name:
        return RunOutcome(RunState.FAILED, f"the process was ended by {name}", shell_code, name)
    reason_text = f": {last_lines[-1]}" if last_lines else ""
    return RunOutcome(RunState.FAILED, f"the process ended with exit code {code}{reason_text}", shell_code)


def finalize_run(
    directory: RunDirectory,
    known: RunRecord,
    submission: Submission,
    monitor_record: MonitorRecord | None,
    clock: Clock,
    *,
    is_stopped: bool = False,
) -> RunRecord:
    """Returns the final record. A final status that the worker wrote itself is kept."""
    last_lines = read_output_tail(directory)
    outcome = determine_outcome(monitor_record, submission, last_lines, is_stopped=is_stopped)
    current = read_record_or(directory, known)
    _record_worker_end(Journal(directory, clock), monitor_record, outcome, last_lines)
    if current.state.is_over:
        return current
    return _write_outcome(directory, current, outcome, clock)


def _write_outcome(directory: RunDirectory, before: RunRecord, outcome: RunOutcome, clock: Clock) -> RunRecord:
    record = _ended_record(before, outcome, clock.now())
    try:
        write_record(directory, record, durable=True)
    except OSError as error:  # the next daemon retries, from the record of the monitor
        logger.warning("Cannot write %s: %s.", directory.status_file, error.strerror)
    _record_run_end(Journal(directory, clock), record, outcome)
    return record


def fail_run(
    directory: RunDirectory, known: RunRecord, clock: Clock, *, reason: str = "", is_stopped: bool = False
) -> RunRecord:
    """Returns the final record of a run whose worker was never started."""
    reason_text = (
        reason or read_last_bytes(directory.monitor_log_file()).decode("utf-8", errors="backslashreplace").strip()
    )
    last = escape_controls(reason_text.split("\n")[-1])
    outcome = RunOutcome(
        RunState.CANCELLED if is_stopped else RunState.FAILED, f"could not be started: {last or 'killed'}", None
    )
    return _write_outcome(directory, read_record_or(directory, known), outcome, clock)


def read_record_or(directory: RunDirectory, known: RunRecord) -> RunRecord:
    try:
        return replace(read_written_record(directory), id=directory.id)
    except (DamagedFile, NotFound) as error:
        logger.warning("%s", error)
        return known


def _ended_record(record: RunRecord, outcome: RunOutcome, now: float) -> RunRecord:
    if outcome.state not in MOVES[record.state]:  # the worker never reported that it ran
        record = with_state(record, RunState.RUNNING)
    return with_state(
        record,
        outcome.state,
        ended_at=now,
        updated_at=now,
        exit_code=outcome.exit_code,
        failure=record.failure or outcome.cause,
    )


def _record_worker_end(
    journal: Journal, monitor_record: MonitorRecord | None, outcome: RunOutcome, last_lines: list[str]
) -> None:
    data: dict[str, Any] = {"exit_code": outcome.exit_code, "signal": outcome.signal, "cause": outcome.cause}
    if monitor_record is not None:
        data |= {"attempt": monitor_record.attempt, "dropped_bytes": monitor_record.dropped_bytes}
        data |= {"pid": monitor_record.worker.pid} if monitor_record.worker else {}
    is_bad = outcome.state in {RunState.FAILED, RunState.LOST}
    journal.record("worker.ended", level="error" if is_bad else None, **data, output=last_lines if is_bad else [])


def _record_run_end(journal: Journal, record: RunRecord, outcome: RunOutcome) -> None:
    """Records the end of the run, which the worker did not record itself."""
    where: dict[str, Any] = {"epoch": record.epoch, "step": record.agent_step}
    extra: dict[str, Any] = {}
    if outcome.state is RunState.FAILED:
        extra = {"error": outcome.cause, "kind": "worker", "exit_code": outcome.exit_code}
    elif outcome.state is RunState.CANCELLED:
        extra = {"reason": outcome.cause or "stopped"}
    elif outcome.state is RunState.LOST:
        extra = {"pid": record.pid}
    journal.record(EVENTS[outcome.state], **where, **extra)


def read_last_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Returns the end of a file; empty if it does not exist or is a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, max_bytes, max(0, size - max_bytes))
    finally:
        os.close(descriptor)


def read_output_tail(directory: RunDirectory) -> list[str]:
    """Returns the last lines of output, oldest first, with control characters escaped."""
    content = read_last_bytes(directory.output_file())
    missing = MAX_BYTES - len(content)
    if missing > 0:  # the file may have been truncated just now
        content = read_last_bytes(directory.earlier_output_file(), missing) + content
    text = content.decode("utf-8", errors="backslashreplace")
    lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return [_shorten(escape_controls(line.rstrip())) for line in lines[-MAX_LINES:]]


def _shorten(line: str) -> str:
    """Keeps both ends of a long line: an error is often at the end."""
    half = MAX_LINE // 2
    return line if len(line) <= MAX_LINE else f"{line[: half - 1]}…{line[-half:]}"
