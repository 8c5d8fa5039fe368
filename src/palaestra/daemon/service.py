"""The daemon as Python calls: what the web, the command line and tests stand on.

    with Daemon(runs_root, settings) as daemon:       # StoreInUse, DamagedIndex, StoreRefused say why it cannot be
        daemon.check(request, terms) -> Prepared      # RequestRefused.field_errors: everything that is wrong, at once
        daemon.submit(request, terms) -> Entry        # accepted, durable, with an id; also QueueFull, StoreRefused
        daemon.runs(); daemon.get(run) -> Entry       # from memory; `run` is an id, its beginning, a name, `latest`
        daemon.directory(run) -> RunDirectory         # journal, metrics, logs, checkpoints: read them there
        daemon.stop(run, grace_seconds)               # gently, then the whole tree; asked twice, or with 0, at once
        daemon.cancel(run)                            # out of the queue, or stop
        daemon.retry(run)                             # go on with a run that is over, in its own directory
        daemon.clone(run, name, changes) -> Entry     # the same request again, as a new run
        daemon.again() -> Entry                       # the last accepted request, as a new run
        daemon.remove(run)                            # never one that runs or waits
        daemon.news.since(number) / .listen(callback) # what happened, in order
        daemon.slots() -> Slots; daemon.is_well; daemon.kinds.names(); daemon.kinds.get(name).schema()

Every call may come from any thread and returns soon; those that write wait for the disk, so that an event loop should
hand them to a thread (`await asyncio.to_thread(daemon.submit, request)`). There is no async in this room: one thread
of our own hears of processes, one lock guards what is known, and files are the wire to workers.
Leaving the block ends nothing: workers go on, and the next daemon finds them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import PalaestraError, RunFailed, UsageError
from palaestra.core.run import RunRequest, RunState
from palaestra.daemon.command_line import shell_command
from palaestra.daemon.door import check_request
from palaestra.daemon.entry import Entry
from palaestra.daemon.errors import Conflict, QueueFull, StoreRefused
from palaestra.daemon.gathering import look_at, stamp_of
from palaestra.daemon.home import DaemonHome
from palaestra.daemon.index import Index
from palaestra.daemon.keeping import read_note
from palaestra.daemon.kinds import Kinds
from palaestra.daemon.news import News, Newsroom
from palaestra.daemon.queue import occupied
from palaestra.daemon.roster import Roster
from palaestra.daemon.settings import DaemonSettings
from palaestra.daemon.supervisor import Supervisor
from palaestra.daemon.ticket import Terms, Ticket, stamped_ticket, write_ticket
from palaestra.runs.documents import read_request
from palaestra.runs.journal import Journal
from palaestra.runs.processes import terminate
from palaestra.runs.status import ACTIVE, moved, write_record
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
    machine: Resources  # in all
    used: Resources
    running: int
    waiting: int
    queue_limit: int


class Daemon:
    """Serves the runs of one directory for as long as the `with` block lasts."""

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
        self.kinds = Kinds(kinds)
        self.news = Newsroom()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        home = DaemonHome(self.root).make()
        with ExitStack() as stack:
            stack.enter_context(home.held())
            index = Index(home.index_file)
            stack.callback(index.close)
            self._roster = Roster(index, self.news)
            self._supervisor = Supervisor(self.root, self._roster, self.kinds, self.settings, self._clock)
            stack.callback(self._supervisor.close)
            self._supervisor.gather()
            self._supervisor.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # Looking

    @property
    def is_well(self) -> bool:
        """Whether anybody still looks after the runs; a daemon that is not well should be ended and started again."""
        return self._supervisor.is_alive

    def runs(self) -> list[Entry]:
        """Newest first; also runs that nobody submitted here."""
        return self._roster.all()

    def get(self, run: str) -> Entry:
        return self._roster.resolve(run)

    def directory(self, run: str) -> RunDirectory:
        return self._store.directory(self.get(run).id)

    def waiting(self) -> list[Entry]:
        """In the order in which they will start."""
        return self._roster.waiting()

    def slots(self) -> Slots:
        running = self._supervisor.running()
        waiting = self._roster.waiting_count()
        return Slots(self.settings.machine, occupied(running), len(running), waiting, self.settings.queue_limit)

    def wait(self, run: str, seconds: float | None = None) -> Entry:
        """Until it is over, or that many seconds have passed; the entry as it is then."""
        run_id = self.get(run).id
        is_over = threading.Event()

        def listener(news: News) -> None:
            if news.run == run_id and (news.entry is None or news.entry.state.is_over):
                is_over.set()

        forget = self.news.listen(listener)
        try:
            if not self.get(run_id).state.is_over:
                is_over.wait(seconds)
        finally:
            forget()
        return self.get(run_id)

    # Asking

    def check(self, request: RunRequest, terms: Terms | None = None) -> Prepared:
        """What would become of it; nothing is written."""
        return check_request(
            request, terms or Terms(), self.kinds, self.settings.machine, self.root, self._roster.is_name_taken
        )

    def submit(self, request: RunRequest, terms: Terms | None = None) -> Entry:
        """When this returns, the request survives whatever happens to the daemon."""
        terms = terms or Terms()
        prepared = self.check(request, terms)
        if not request.command:
            command = shell_command(self.kinds, prepared.request, prepared.config)
            prepared = replace(prepared, request=replace(prepared.request, command=command))
        sequence = self._reserve()
        try:
            ticket = _ticket(prepared, terms, sequence)
            directory = self._create(prepared, ticket)
            entry = look_at(directory)
            try:
                self._roster.accept(entry)
            except StoreRefused:
                self._store.remove(directory.id)
                raise
        finally:
            self._roster.release()
        self._tell_queued(directory, ticket)
        self._supervisor.ring()
        return entry

    def clone(
        self,
        run: str,
        name: str = "",
        changes: Mapping[str, Any] | None = None,
        *,
        submitted_by: str = "",
        terms: Terms | None = None,
    ) -> Entry:
        """The same request as a new run; `changes` are laid over its config, key by key of the first level."""
        entry = self.get(run)
        request = read_request(self._store.directory(entry.id))
        renewed = replace(
            request,
            name=name,
            config={**request.config, **(changes or {})},
            submitted_by=submitted_by or request.submitted_by,
            command="",  # the old one names the old run
        )
        old_terms = entry.ticket.terms if entry.ticket is not None else None
        return self.submit(renewed, terms or old_terms)

    def again(self, *, submitted_by: str = "") -> Entry:
        """ "Train again": the last request that was accepted."""
        tickets = [(entry.ticket.sequence, entry.id) for entry in self.runs() if entry.ticket is not None]
        if not tickets:
            raise Conflict("Nothing has been submitted here yet.", "Submit a request first.")
        return self.clone(max(tickets)[1], submitted_by=submitted_by)

    def retry(self, run: str) -> Entry:
        """Queue a run that is over once more; it goes on from its last checkpoint, if its kind can."""
        with self._roster.guard:
            entry = self.get(run)
            if not entry.state.is_over or self._supervisor.is_kept(entry.id):
                raise Conflict(
                    f"Run '{entry.record.name}' is {entry.state}.", "Only a run that is over can be retried."
                )
            if entry.state is RunState.FINISHED:
                raise Conflict(
                    f"Run '{entry.record.name}' is finished.", "Clone it to run it once more from the start."
                )
            directory = self._store.directory(entry.id)
            ticket = self._next_ticket(entry, directory)
            try:
                queued = self._queue_again(entry, directory, ticket)
            finally:
                self._roster.release()
        self._tell_queued(directory, ticket)
        self._supervisor.ring()
        return queued

    def stop(self, run: str, grace_seconds: float | None = None) -> Entry:
        """A run that is over is left as it is."""
        with self._roster.guard:
            entry = self.get(run)
            if self._supervisor.is_kept(entry.id):
                self._stop_kept(entry, self._grace(entry, grace_seconds))
            elif entry.is_waiting:
                self._take_out(entry)
            elif entry.state in ACTIVE:
                self._stop_elsewhere(entry)
            return self.get(entry.id)

    def cancel(self, run: str) -> Entry:
        """Out of the queue; a run that works is stopped. One that is over cannot be cancelled any more."""
        entry = self.get(run)
        if entry.state.is_over:
            raise Conflict(f"Run '{entry.record.name}' is {entry.state} already.")
        return self.stop(entry.id)

    def prioritise(self, run: str, priority: int) -> Entry:
        """Move a run that waits before all of lower priority, and behind all of higher."""
        with self._roster.guard:
            entry = self.get(run)
            if not entry.is_waiting or entry.ticket is None:
                raise Conflict(
                    f"Run '{entry.record.name}' is {entry.state}.", "Only a run that waits has a place in the queue."
                )
            directory = self._store.directory(entry.id)
            ticket = replace(entry.ticket, terms=replace(entry.ticket.terms, priority=priority))
            try:
                write_ticket(directory, ticket)
            except OSError as error:
                raise _refused(directory, error) from error
            self._roster.put(replace(entry, ticket=ticket), "changed")
        Journal(directory, self._clock).record("run.prioritised", priority=priority)
        return self.get(entry.id)

    def remove(self, run: str) -> Entry:
        """Its directory and everything in it."""
        with self._roster.guard:
            entry = self.get(run)
            if self._supervisor.is_kept(entry.id) or not entry.state.is_over:
                raise Conflict(
                    f"Run '{entry.record.name}' is {entry.state} and is not removed.", "Stop or cancel it first."
                )
            self._store.remove(entry.id)
            self._roster.drop(entry.id)
            return entry

    # Details

    def _reserve(self) -> int:
        sequence = self._roster.reserve(self.settings.queue_limit)
        if sequence is None:
            raise QueueFull(
                f"{self.settings.queue_limit} runs wait already.", "Try again when some have started, or cancel some."
            )
        return sequence

    def _create(self, prepared: Prepared, ticket: Ticket) -> RunDirectory:
        """Two who name nothing may be given the same nickname at once; then another one is drawn."""
        for _ in range(NICKNAME_TRIES):
            try:
                return self._try_to_create(prepared, ticket)
            except UsageError:
                if prepared.request.name:
                    raise
        return self._try_to_create(prepared, ticket)

    def _try_to_create(self, prepared: Prepared, ticket: Ticket) -> RunDirectory:
        try:
            return self._store.create(
                prepared.request,
                prepared.config,
                prepared.request.name or None,
                prepared.total_steps,
                queue=stamped_ticket(ticket),
            )
        except PalaestraError as error:
            if isinstance(error.__cause__, OSError):
                raise StoreRefused(error.message, error.hint) from error
            raise

    def _tell_queued(self, directory: RunDirectory, ticket: Ticket) -> None:
        Journal(directory, self._clock).record(
            "run.queued", sequence=ticket.sequence, priority=ticket.terms.priority, attempt=ticket.attempt
        )

    def _next_ticket(self, entry: Entry, directory: RunDirectory) -> Ticket:
        """With a place in the queue, which the caller gives back."""
        note = read_note(directory)
        attempt = 1 + max(note.attempt if note else 0, entry.ticket.attempt if entry.ticket else 0)
        kind = self.kinds.get(entry.record.kind)
        if entry.ticket is not None:
            return replace(entry.ticket, sequence=self._reserve(), attempt=attempt)
        prepared = kind.prepare(read_request(directory), self.settings.machine, self.root)
        return replace(_ticket(prepared, Terms(), self._reserve()), attempt=attempt)

    def _queue_again(self, entry: Entry, directory: RunDirectory, ticket: Ticket) -> Entry:
        record = moved(entry.record, RunState.QUEUED, pid=None, ended_at=None, exit_code=None, failure="")
        try:
            write_ticket(directory, ticket)
            write_record(directory, record, durable=True)
        except OSError as error:
            raise _refused(directory, error) from error
        queued = Entry(record, ticket, status_stamp=stamp_of(directory))
        self._roster.put(queued, "accepted")
        return queued

    def _take_out(self, entry: Entry) -> None:
        directory = self._store.directory(entry.id)
        record = moved(entry.record, RunState.CANCELLED, ended_at=self._clock.now(), updated_at=self._clock.now())
        try:
            write_record(directory, record, durable=True)
        except OSError as error:
            raise _refused(directory, error) from error
        Journal(directory, self._clock).record(
            "run.cancelled", epoch=record.epoch, step=record.agent_step, reason="queue"
        )
        self._roster.put(replace(entry, record=record, status_stamp=stamp_of(directory)), "ended")

    def _stop_kept(self, entry: Entry, grace_seconds: float) -> None:
        try:
            self._supervisor.stop(entry, grace_seconds)
        except OSError as error:
            raise RunFailed(f"Run '{entry.record.name}' cannot be reached: {error.strerror}.", "Try again.") from error

    def _stop_elsewhere(self, entry: Entry) -> None:
        """Somebody else's process: it is asked, and nothing more."""
        record = entry.record
        if record.pid is not None and record.pid_started_at is not None:
            terminate(record.pid, record.pid_started_at)

    def _grace(self, entry: Entry, asked: float | None) -> float:
        own = entry.ticket.terms.grace_seconds if entry.ticket is not None else None
        return next(value for value in (asked, own, self.settings.grace_seconds) if value is not None)


def _refused(directory: RunDirectory, error: OSError) -> StoreRefused:
    return StoreRefused(f"{directory.path} cannot be written: {error.strerror}.", "Make room first.")


def _ticket(prepared: Prepared, terms: Terms, sequence: int) -> Ticket:
    request = prepared.request
    return Ticket(
        sequence=sequence,
        attempt=1,
        resources=prepared.resources,
        terms=terms,
        executor=request.executor,
        nproc=request.nproc,
        submitted_by=request.submitted_by,
        command=request.command,
    )
