"""What becomes of a run whose worker has ended: said in status and journal, once."""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile, NotFound, escape_controls
from palaestra.core.run import MOVES, RunRecord, RunState
from palaestra.daemon.tail import read_end, read_tail
from palaestra.runs.journal import Journal
from palaestra.runs.status import moved, read_written_record, write_record

if TYPE_CHECKING:
    from palaestra.core.clock import Clock
    from palaestra.daemon.keeping import Note
    from palaestra.daemon.ticket import Ticket
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

EVENTS = {
    RunState.FINISHED: "run.finished",
    RunState.FAILED: "run.failed",
    RunState.CANCELLED: "run.cancelled",
    RunState.LOST: "run.lost",
}


@dataclass(frozen=True)
class End:
    state: RunState
    cause: str  # empty when there is nothing to explain
    exit_code: int | None  # as a shell counts: 128 + number of a signal
    signal: str = ""


def judge_end(note: Note | None, ticket: Ticket, last_words: list[str], *, is_stopped: bool = False) -> End:
    """From what its keeper saw. `last_words` are the last lines it printed."""
    if note is None or note.attempt != ticket.attempt or not note.has_ended or note.exit_code is None:
        gone = "its process is gone, and nobody saw how it ended (killed, or the machine stopped)"
        return End(RunState.CANCELLED, "", None) if is_stopped else End(RunState.LOST, gone, None)
    code = note.exit_code
    name = signal.Signals(-code).name if code < 0 else ""
    shell_code = 128 - code if code < 0 else code
    if note.is_out_of_memory:
        limit = ticket.terms.memory_mb
        return End(RunState.FAILED, f"out of memory: {note.used_mb} MB used, {limit} MB allowed", shell_code, name)
    if note.is_stopping:
        killed = "it did not stop when asked, and was killed" if name == "SIGKILL" else ""
        return End(RunState.CANCELLED, killed, shell_code, name)
    if code == 0:
        return End(RunState.FINISHED, "", 0)
    if name:
        return End(RunState.FAILED, f"its process was ended by {name}", shell_code, name)
    said = f": {last_words[-1]}" if last_words else ""
    return End(RunState.FAILED, f"its process ended with exit code {code}{said}", shell_code)


def settle(
    directory: RunDirectory,
    known: RunRecord,
    ticket: Ticket,
    note: Note | None,
    clock: Clock,
    *,
    is_stopped: bool = False,
) -> RunRecord:
    """The record as it is from now on. What the worker itself wrote at its end stands."""
    last_words = read_tail(directory)
    end = judge_end(note, ticket, last_words, is_stopped=is_stopped)
    written = read_or(directory, known)
    _tell_of_worker(Journal(directory, clock), note, end, last_words)
    if written.state.is_over:
        return written
    return _write(directory, written, end, clock)


def _write(directory: RunDirectory, before: RunRecord, end: End, clock: Clock) -> RunRecord:
    record = _ended(before, end, clock.now())
    try:
        write_record(directory, record, durable=True)
    except OSError as error:  # told again by the next daemon, from the keeper's note
        logger.warning("%s cannot be written: %s.", directory.status_file, error.strerror)
    _tell_of_run(Journal(directory, clock), record, end)
    return record


def fail(
    directory: RunDirectory, known: RunRecord, clock: Clock, *, reason: str = "", is_stopped: bool = False
) -> RunRecord:
    """A run whose worker was never started."""
    said = reason or read_end(directory.keeper_log_file()).decode("utf-8", errors="backslashreplace").strip()
    last = escape_controls(said.split("\n")[-1])
    end = End(
        RunState.CANCELLED if is_stopped else RunState.FAILED, f"it could not be started: {last or 'killed'}", None
    )
    return _write(directory, read_or(directory, known), end, clock)


def read_or(directory: RunDirectory, known: RunRecord) -> RunRecord:
    try:
        return replace(read_written_record(directory), id=directory.id)
    except (DamagedFile, NotFound) as error:
        logger.warning("%s", error)
        return known


def _ended(record: RunRecord, end: End, now: float) -> RunRecord:
    if end.state not in MOVES[record.state]:  # it never said that it ran
        record = moved(record, RunState.RUNNING)
    return moved(
        record, end.state, ended_at=now, updated_at=now, exit_code=end.exit_code, failure=record.failure or end.cause
    )


def _tell_of_worker(journal: Journal, note: Note | None, end: End, last_words: list[str]) -> None:
    data: dict[str, Any] = {"exit_code": end.exit_code, "signal": end.signal, "cause": end.cause}
    if note is not None:
        data |= {"attempt": note.attempt, "dropped_bytes": note.dropped_bytes}
        data |= {"pid": note.worker.pid} if note.worker else {}
    is_bad = end.state in {RunState.FAILED, RunState.LOST}
    journal.record("worker.ended", level="error" if is_bad else None, **data, output=last_words if is_bad else [])


def _tell_of_run(journal: Journal, record: RunRecord, end: End) -> None:
    """In the worker's stead, which did not come to it."""
    where: dict[str, Any] = {"epoch": record.epoch, "step": record.agent_step}
    extra: dict[str, Any] = {}
    if end.state is RunState.FAILED:
        extra = {"error": end.cause, "kind": "worker", "exit_code": end.exit_code}
    elif end.state is RunState.CANCELLED:
        extra = {"reason": end.cause or "stopped"}
    elif end.state is RunState.LOST:
        extra = {"pid": record.pid}
    journal.record(EVENTS[end.state], **where, **extra)
