"""The daemon as a Python class, used by the web API, the command line and tests.

    with Daemon(runs_root, settings) as daemon:         # raises StoreInUse, DamagedIndex, StoreRefused
        daemon.check(request, options) -> Prepared      # raises RequestRefused with all field errors
        daemon.submit(request, options) -> RunEntry     # accepted and durable; also raises QueueFull, StoreRefused
        daemon.runs(); daemon.get(run) -> RunEntry      # from memory; `run` is an id, its prefix, a name, `latest`
        daemon.directory(run) -> RunDirectory           # journal, metrics, logs, checkpoints
        daemon.stop(run, grace_seconds)                 # kills the process tree after the grace period
        daemon.cancel(run)                              # removes it from the queue, or stops it
        daemon.retry(run)                               # continues a run that is over, in its own directory
        daemon.clone(run, name, changes) -> RunEntry    # submits the same request as a new run
        daemon.rerun_latest() -> RunEntry               # submits the latest accepted request as a new run
        daemon.remove(run)                              # refused while it runs or waits
        daemon.events.since(sequence) / .subscribe(callback)
        daemon.slots() -> Slots; daemon.is_healthy; daemon.kinds.names(); daemon.kinds.get(name).schema()

Every method is thread-safe and returns soon. Those that write wait for the disk, so an event loop should call them in
a thread (`await asyncio.to_thread(daemon.submit, request)`). One thread supervises processes, one lock guards the run
table, and files are the protocol between daemon and workers. Workers continue after the `with` block; the next daemon
adopts them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import PalaestraError, RunFailed, UsageError
from palaestra.core.run import RunRequest, RunState
from palaestra.daemon.errors import Conflict, QueueFull, StoreRefused
from palaestra.daemon.event_bus import EventBus, RunEvent
from palaestra.daemon.index import Index
from palaestra.daemon.monitor_handle import read_monitor_record
from palaestra.daemon.queue import used_resources
from palaestra.daemon.request_validation import validate_request
from palaestra.daemon.run_entry import RunEntry, Submission, SubmissionOptions, stamped_submission, write_submission
from palaestra.daemon.run_scan import read_entry, status_stamp_of
from palaestra.daemon.run_table import RunTable
from palaestra.daemon.settings import DaemonDirectory, DaemonSettings
from palaestra.daemon.supervisor import Supervisor
from palaestra.daemon.worker_kinds import WorkerKinds, shell_command
from palaestra.runs.documents import read_request
from palaestra.runs.journal import Journal
from palaestra.runs.processes import terminate
from palaestra.runs.status import ACTIVE, with_state, write_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from palaestra.core.worker_kind import Prepared, Resources, WorkerKind
    from palaestra.runs.directory import RunDirectory


NICKNAME_TRIES = 10


@dataclass(frozen=True)
class Slots:
    machine: Resources  # in total
    used: Resources
    running: int
    waiting: int
    queue_limit: int


class Daemon:
    """Serves one runs directory for the duration of the `with` block."""

    def __init__(
        self,
        root: Path | None = None,
        settings: DaemonSettings | None = None,
        kinds: Mapping[str, WorkerKind] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._store = RunStore(root, self._clock)
        self.root = self._store.root
        self.settings = settings or DaemonSettings()
        self.kinds = WorkerKinds(kinds)
        self.events = EventBus()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        home = DaemonDirectory(self.root).create()
        with ExitStack() as stack:
            stack.enter_context(home.lock())
            index = Index(home.index_file)
            stack.callback(index.close)
            self._run_table = RunTable(index, self.events)
            self._supervisor = Supervisor(self.root, self._run_table, self.kinds, self.settings, self._clock)
            stack.callback(self._supervisor.close)
            self._supervisor.scan_all()
            self._supervisor.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # Queries

    @property
    def is_healthy(self) -> bool:
        """Whether the supervisor thread is alive; otherwise restart the daemon."""
        return self._supervisor.is_alive

    def runs(self) -> list[RunEntry]:
        """Returns all runs, newest first, including external ones."""
        return self._run_table.all()

    def get(self, run: str) -> RunEntry:
        return self._run_table.resolve(run)

    def directory(self, run: str) -> RunDirectory:
        return self._store.directory(self.get(run).id)

    def waiting(self) -> list[RunEntry]:
        """Returns queued runs in the order in which they will start."""
        return self._run_table.waiting()

    def slots(self) -> Slots:
        running = self._supervisor.running()
        waiting = self._run_table.waiting_count()
        return Slots(self.settings.machine, used_resources(running), len(running), waiting, self.settings.queue_limit)

    def wait(self, run: str, seconds: float | None = None) -> RunEntry:
        """Waits until a run is over, at most `seconds`, and returns its entry."""
        run_id = self.get(run).id
        is_over = threading.Event()

        def subscriber(event: RunEvent) -> None:
            if event.run == run_id and (event.entry is None or event.entry.state.is_over):
                is_over.set()

        unsubscribe = self.events.subscribe(subscriber)
        try:
            if not self.get(run_id).state.is_over:
                is_over.wait(seconds)
        finally:
            unsubscribe()
        return self.get(run_id)

    # Commands

    def check(self, request: RunRequest, options: SubmissionOptions | None = None) -> Prepared:
        """Validates a request; nothing is written."""
        return validate_request(
            request,
            options or SubmissionOptions(),
            self.kinds,
            self.settings.machine,
            self.root,
            self._run_table.is_name_taken,
        )

    def submit(self, request: RunRequest, options: SubmissionOptions | None = None) -> RunEntry:
        """Queues a request durably: it survives a crash of the daemon."""
        options = options or SubmissionOptions()
        prepared = self.check(request, options)
        if not request.command:
            command = shell_command(self.kinds, prepared.request, prepared.config)
            prepared = replace(prepared, request=replace(prepared.request, command=command))
        sequence = self._reserve()
        try:
            submission = _submission(prepared, options, sequence)
            directory = self._create(prepared, submission)
            entry = read_entry(directory)
            try:
                self._run_table.accept(entry)
            except StoreRefused:
                self._store.remove(directory.id)
                raise
        finally:
            self._run_table.release()
        self._record_queued(directory, submission)
        self._supervisor.wake()
        return entry

    def clone(
        self,
        run: str,
        name: str = "",
        changes: Mapping[str, Any] | None = None,
        *,
        submitted_by: str = "",
        options: SubmissionOptions | None = None,
    ) -> RunEntry:
        """Submits the request of a run again; `changes` replace top-level keys of its config."""
        entry = self.get(run)
        request = read_request(self._store.directory(entry.id))
        renewed = replace(
            request,
            name=name,
            config={**request.config, **(changes or {})},
            submitted_by=submitted_by or request.submitted_by,
            command="",  # the previous one names the previous run
        )
        old_options = entry.submission.options if entry.submission is not None else None
        return self.submit(renewed, options or old_options)

    def rerun_latest(self, *, submitted_by: str = "") -> RunEntry:
        """Submits the latest accepted request as a new run."""
        submissions = [(entry.submission.sequence, entry.id) for entry in self.runs() if entry.submission is not None]
        if not submissions:
            raise Conflict("No request has been submitted yet.")
        return self.clone(max(submissions)[1], submitted_by=submitted_by)

    def retry(self, run: str) -> RunEntry:
        """Queues a run that is over again; it continues from its last checkpoint, if its kind supports that."""
        with self._run_table.lock:
            entry = self.get(run)
            if not entry.state.is_over or self._supervisor.is_monitored(entry.id):
                raise Conflict(
                    f"Run '{entry.record.name}' is {entry.state}.", "Only a run that is over can be retried."
                )
            if entry.state is RunState.FINISHED:
                raise Conflict(f"Run '{entry.record.name}' is finished.", "Clone it to run it again from the start.")
            directory = self._store.directory(entry.id)
            submission = self._next_submission(entry, directory)
            try:
                queued = self._queue_again(entry, directory, submission)
            finally:
                self._run_table.release()
        self._record_queued(directory, submission)
        self._supervisor.wake()
        return queued

    def stop(self, run: str, grace_seconds: float | None = None) -> RunEntry:
        """Stops a run; does nothing if it is over."""
        with self._run_table.lock:
            entry = self.get(run)
            if self._supervisor.is_monitored(entry.id):
                self._stop_monitored(entry, self._grace(entry, grace_seconds))
            elif entry.is_waiting:
                self._cancel_queued(entry)
            elif entry.state in ACTIVE:
                self._stop_external(entry)
            return self.get(entry.id)

    def cancel(self, run: str) -> RunEntry:
        """Removes a run from the queue, or stops it. Raises Conflict if it is over."""
        entry = self.get(run)
        if entry.state.is_over:
            raise Conflict(f"Run '{entry.record.name}' is already {entry.state}.")
        return self.stop(entry.id)

    def prioritise(self, run: str, priority: int) -> RunEntry:
        """Changes the priority of a queued run."""
        with self._run_table.lock:
            entry = self.get(run)
            if not entry.is_waiting or entry.submission is None:
                raise Conflict(
                    f"Run '{entry.record.name}' is {entry.state}.",
                    "Only a run in the queue of this daemon has a priority.",
                )
            directory = self._store.directory(entry.id)
            submission = replace(entry.submission, options=replace(entry.submission.options, priority=priority))
            try:
                write_submission(directory, submission)
            except OSError as error:
                raise _refused(directory, error) from error
            self._run_table.put(replace(entry, submission=submission), "changed")
        Journal(directory, self._clock).record("run.prioritised", priority=priority)
        return self.get(entry.id)

    def remove(self, run: str) -> RunEntry:
        """Deletes the directory of a run."""
        with self._run_table.lock:
            entry = self.get(run)
            if self._supervisor.is_monitored(entry.id) or not entry.state.is_over:
                raise Conflict(f"Run '{entry.record.name}' is {entry.state}.", "Stop or cancel it first.")
            self._store.remove(entry.id)
            self._run_table.remove(entry.id)
            return entry

    # Details

    def _reserve(self) -> int:
        sequence = self._run_table.reserve(self.settings.queue_limit)
        if sequence is None:
            raise QueueFull(
                f"The queue is full ({self.settings.queue_limit} runs).", "Try again later, or cancel some runs."
            )
        return sequence

    def _create(self, prepared: Prepared, submission: Submission) -> RunDirectory:
        """Creates the directory; generates another nickname if two requests got the same one."""
        for _ in range(NICKNAME_TRIES):
            try:
                return self._try_to_create(prepared, submission)
            except UsageError:
                if prepared.request.name:
                    raise
        return self._try_to_create(prepared, submission)

    def _try_to_create(self, prepared: Prepared, submission: Submission) -> RunDirectory:
        try:
            return self._store.create(
                prepared.request,
                prepared.config,
                prepared.request.name or None,
                prepared.total_steps,
                queue=stamped_submission(submission),
            )
        except PalaestraError as error:
            if isinstance(error.__cause__, OSError):
                raise StoreRefused(error.message, error.hint) from error
            raise

    def _record_queued(self, directory: RunDirectory, submission: Submission) -> None:
        Journal(directory, self._clock).record(
            "run.queued", sequence=submission.sequence, priority=submission.options.priority, attempt=submission.attempt
        )

    def _next_submission(self, entry: RunEntry, directory: RunDirectory) -> Submission:
        """Returns the submission of a retry and reserves a queue place, which the caller releases."""
        monitor_record = read_monitor_record(directory)
        attempt = 1 + max(
            monitor_record.attempt if monitor_record else 0, entry.submission.attempt if entry.submission else 0
        )
        kind = self.kinds.get(entry.record.kind)
        if entry.submission is not None:
            return replace(entry.submission, sequence=self._reserve(), attempt=attempt)
        prepared = kind.prepare(read_request(directory), self.settings.machine, self.root)
        return replace(_submission(prepared, SubmissionOptions(), self._reserve()), attempt=attempt)

    def _queue_again(self, entry: RunEntry, directory: RunDirectory, submission: Submission) -> RunEntry:
        record = with_state(entry.record, RunState.QUEUED, pid=None, ended_at=None, exit_code=None, failure="")
        try:
            write_submission(directory, submission)
            write_record(directory, record, durable=True)
        except OSError as error:
            raise _refused(directory, error) from error
        queued = RunEntry(record, submission, status_stamp=status_stamp_of(directory))
        self._run_table.put(queued, "accepted")
        return queued

    def _cancel_queued(self, entry: RunEntry) -> None:
        directory = self._store.directory(entry.id)
        record = with_state(entry.record, RunState.CANCELLED, ended_at=self._clock.now(), updated_at=self._clock.now())
        try:
            write_record(directory, record, durable=True)
        except OSError as error:
            raise _refused(directory, error) from error
        Journal(directory, self._clock).record(
            "run.cancelled", epoch=record.epoch, step=record.agent_step, reason="queue"
        )
        self._run_table.put(replace(entry, record=record, status_stamp=status_stamp_of(directory)), "ended")

    def _stop_monitored(self, entry: RunEntry, grace_seconds: float) -> None:
        try:
            self._supervisor.stop(entry, grace_seconds)
        except OSError as error:
            raise RunFailed(f"Cannot signal run '{entry.record.name}': {error.strerror}.", "Try again.") from error

    def _stop_external(self, entry: RunEntry) -> None:
        """Sends SIGTERM to the process of an external run."""
        record = entry.record
        if record.pid is not None and record.pid_started_at is not None:
            terminate(record.pid, record.pid_started_at)

    def _grace(self, entry: RunEntry, requested: float | None) -> float:
        own = entry.submission.options.grace_seconds if entry.submission is not None else None
        return next(value for value in (requested, own, self.settings.grace_seconds) if value is not None)


def _refused(directory: RunDirectory, error: OSError) -> StoreRefused:
    return StoreRefused(f"Cannot write {directory.path}: {error.strerror}.", "Free disk space.")


def _submission(prepared: Prepared, options: SubmissionOptions, sequence: int) -> Submission:
    request = prepared.request
    return Submission(
        sequence=sequence,
        attempt=1,
        resources=prepared.resources,
        options=options,
        executor=request.executor,
        nproc=request.nproc,
        submitted_by=request.submitted_by,
        command=request.command,
    )
