"""The daemon's one thread for processes: starts who is next, hears who ended, looks after those that run.

Nothing here waits for a worker: a keeper's end is a readable pidfd, everything else is looked at a few times a second.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError
from palaestra.core.run import RunState
from palaestra.daemon.gathering import Standing, look_at, run_ids, seen, stamp_of, stand_of
from palaestra.daemon.keeper import Charge
from palaestra.daemon.keeping import start_keeper, still_there
from palaestra.daemon.kept import Kept
from palaestra.daemon.output_log import OutputLog
from palaestra.daemon.queue import Place, find_places
from palaestra.daemon.settling import fail, read_or, settle
from palaestra.daemon.tree import find_members, kill_members
from palaestra.rendering.frame_buffer import remove_dead_frame_buffers
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import Journal
from palaestra.runs.processes import is_alive
from palaestra.runs.status import ACTIVE
from palaestra.runs.store import ENVIRONMENT_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.core.clock import Clock
    from palaestra.daemon.entry import Entry
    from palaestra.daemon.kinds import Kinds
    from palaestra.daemon.roster import Roster
    from palaestra.daemon.settings import DaemonSettings

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 1.0  # beyond the grace, for a keeper that does not do as it is told
START_AGAIN_SECONDS = 1.0  # after the machine had no process to give
OLD_ONES_PER_SCAN = 500


class Supervisor:
    def __init__(self, root: Path, roster: Roster, kinds: Kinds, settings: DaemonSettings, clock: Clock) -> None:
        self._root = root
        self._roster = roster
        self._kinds = kinds
        self._settings = settings
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_closing = False
        self._start_at = self._scan_at = 0.0
        self._scanned = 0
        self._thread = threading.Thread(target=self._run, name="palaestra-supervisor", daemon=True)

    def gather(self) -> None:
        """Before anything else: every run of the store is exactly one of re-adopted, over, waiting or elsewhere."""
        found = run_ids(self._root)
        with self._roster.together():
            for run_id in self._roster.ids() - found:
                self._roster.drop(run_id)
            for run_id in sorted(found):
                directory = self._directory(run_id)
                known = self._roster.find(run_id)
                if known is None or not _is_as_before(directory, known):
                    self._place(directory, look_at(directory, known))
        remove_dead_frame_buffers(is_alive)
        self._scan_at = self._clock.monotonic() + self._settings.scan_seconds

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Workers and their keepers go on; only our looking ends."""
        self._is_closing = True
        self.ring()
        self._thread.join()
        for kept in self._kept.values():
            kept.close()
        os.close(self._bell)

    def ring(self) -> None:
        """There may be something to start."""
        self._start_at = 0.0
        os.eventfd_write(self._bell, 1)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def is_kept(self, run_id: str) -> bool:
        return run_id in self._kept

    def running(self) -> list[Entry]:
        """Those that take up slots now."""
        with self._roster.guard:
            return [entry for run_id in self._kept if (entry := self._roster.find(run_id)) is not None]

    def stop(self, entry: Entry, grace_seconds: float) -> None:
        """Gently, and after the grace the whole tree. Asked again, or with no grace, at once."""
        kept = self._kept[entry.id]
        if kept.is_stopping or grace_seconds <= 0:
            kept.kill_at = min(kept.kill_at, self._clock.monotonic())
        else:
            kept.kill_at = self._clock.monotonic() + grace_seconds
        kept.ask()
        self._roster.put(replace(entry, record=replace(entry.record, state=RunState.STOPPING)), "changed")
        self.ring()

    def _directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self._root / run_id)

    # What is found

    def _place(self, directory: RunDirectory, entry: Entry) -> None:
        standing = stand_of(directory, entry)
        if standing is Standing.ELSEWHERE:
            entry = seen(entry)
        self._roster.replace_quietly(entry)
        if standing in {Standing.KEPT, Standing.UNKEPT, Standing.ENDED}:
            assert entry.ticket is not None
            self._adopt(entry, Kept(directory, entry.ticket.attempt))

    def _adopt(self, entry: Entry, kept: Kept) -> None:
        self._kept[entry.id] = kept
        kept.heard_at = self._clock.monotonic()
        kept.identify()
        note = kept.note()
        gpus = note.gpus if note is not None else ()
        kept.is_stopping = note is not None and note.is_stopping
        if kept.is_stopping:
            kept.kill_at = self._clock.monotonic() + self._settings.grace_seconds
        state = RunState.STOPPING if kept.is_stopping else RunState.RUNNING
        self._roster.put(replace(entry, gpus=gpus, record=replace(entry.record, state=state)), "changed")

    # The loop

    def _run(self) -> None:
        while not self._is_closing:
            self._listen()
            with self._roster.guard:
                try:
                    self._look_around()
                except OSError as error:  # out of descriptors, a disk that is gone: what cannot be seen is not judged
                    logger.warning("The daemon cannot look after its runs just now: %s.", error)

    def _look_around(self) -> None:
        if self._is_closing:  # while we listened
            return
        for run_id, kept in list(self._kept.items()):
            self._look_after(run_id, kept)
        self._start_waiting()
        self._scan()

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        with self._roster.guard:
            for kept in self._kept.values():
                if kept.handle is not None:
                    poll.register(kept.handle, select.POLLIN)
        poll.poll(self._settings.tick_seconds * 1000)
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return

    def _look_after(self, run_id: str, kept: Kept) -> None:
        if kept.handle is None and kept.identify() and kept.is_stopping:
            kept.ask()  # it was asked before anybody knew whom to ask
        if kept.has_ended():
            self._ended(run_id, kept)
            return
        entry = self._roster.find(run_id)
        if entry is None:
            return
        self._refresh(entry, kept)
        if not kept.has_keeper:
            directory = kept.directory
            OutputLog(directory.output_file(), directory.earlier_output_file(), self._log_bytes(entry)).tend()
        self._hurry(kept)

    def _refresh(self, entry: Entry, kept: Kept) -> None:
        now = self._clock.monotonic()
        self._tell_of_start(kept)
        stamp = stamp_of(kept.directory)
        if kept.has_made_a_sound():
            kept.heard_at = now
            if entry.is_silent:
                entry = replace(entry, is_silent=False)
                self._roster.note(entry)
        if stamp != entry.status_stamp:
            record = read_or(kept.directory, entry.record)
            state = RunState.STOPPING if kept.is_stopping or record.state is RunState.STOPPING else RunState.RUNNING
            # It may have written its end already; until its processes are gone it is not over, and has no exit code.
            record = replace(record, state=state, exit_code=None, ended_at=None)
            self._roster.note(replace(entry, record=record, status_stamp=stamp))
        elif not entry.is_silent and now - kept.heard_at > self._settings.silence_seconds:
            self._roster.note(replace(entry, is_silent=True))

    def _tell_of_start(self, kept: Kept) -> None:
        """Once, and before its end is told: a worker may be gone before anybody looked at it."""
        if not kept.is_told and (note := kept.note()) is not None and note.worker is not None:
            kept.is_told = True
            Journal(kept.directory, self._clock).record(
                "worker.started", pid=note.worker.pid, attempt=note.attempt, command=kept.command, gpus=list(note.gpus)
            )

    def _hurry(self, kept: Kept) -> None:
        late = self._clock.monotonic() - kept.kill_at
        if late > PATIENCE_SECONDS:
            logger.warning("The keeper of run %s does not end it; the daemon does.", kept.directory.id)
            kept.kill_tree()
        elif late > 0:
            kept.kill()

    def _ended(self, run_id: str, kept: Kept) -> None:
        note = kept.note()
        if note is not None and note.worker is not None and not note.has_ended and still_there(note.worker):
            logger.warning("The keeper of run %s is gone; its worker goes on.", run_id)
            kept.watch_worker(note.worker)
            if kept.is_stopping:
                kept.ask()
            return
        self._tell_of_start(kept)
        left = kill_members(lambda: find_members(run_id, None), PATIENCE_SECONDS)
        if left:
            logger.warning("%d processes of run %s cannot be ended.", left, run_id)
        kept.close()
        del self._kept[run_id]
        remove_dead_frame_buffers(is_alive)
        self._start_at = 0.0
        entry = self._roster.find(run_id)
        if entry is None or entry.ticket is None:
            return
        if note is None or note.worker is None:
            record = fail(kept.directory, entry.record, self._clock, is_stopped=kept.is_stopping)
        else:
            record = settle(kept.directory, entry.record, entry.ticket, note, self._clock, is_stopped=kept.is_stopping)
        ended = replace(entry, record=record, gpus=(), is_silent=False, status_stamp=stamp_of(kept.directory))
        self._roster.put(ended, "ended")

    # Starting

    def _start_waiting(self) -> None:
        if self._clock.monotonic() < self._start_at:
            return
        self._start_at = float("inf")  # until the bell rings or a worker ends
        for place in find_places(self._roster.waiting(), self.running(), self._settings.machine):
            self._try_to_start(place)

    def _try_to_start(self, place: Place) -> None:
        entry, directory = place.entry, self._directory(place.entry.id)
        assert entry.ticket is not None
        now = look_at(directory, entry)
        if stand_of(directory, now) is not Standing.WAITING or now.ticket is None:
            self._place(directory, now)  # somebody went on with it by hand meanwhile, or an old keeper is still leaving
            return
        try:
            charge = self._charge(directory, now, place.gpus)
            child = start_keeper(directory, charge)
        except PalaestraError as error:
            record = fail(directory, entry.record, self._clock, reason=str(error))
            self._roster.put(replace(now, record=record, status_stamp=stamp_of(directory)), "ended")
            return
        except OSError as error:
            logger.warning("Run %s cannot be started yet: %s.", entry.id, error)
            self._start_at = self._clock.monotonic() + START_AGAIN_SECONDS
            return
        self._kept[entry.id] = kept = Kept(directory, entry.ticket.attempt, child)
        kept.heard_at = self._clock.monotonic()
        kept.command = charge.argv
        record = replace(now.record, state=RunState.RUNNING)
        self._roster.put(replace(now, gpus=place.gpus, record=record), "started")

    def _charge(self, directory: RunDirectory, entry: Entry, gpus: tuple[int, ...]) -> Charge:
        assert entry.ticket is not None
        terms = entry.ticket.terms
        environment = {ENVIRONMENT_VARIABLE: str(self._root), "PYTHONFAULTHANDLER": "1", "NO_COLOR": "1"}
        if self._settings.machine.gpus and entry.ticket.executor == "local":
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
        return Charge(
            run=entry.id,
            attempt=entry.ticket.attempt,
            argv=self._kinds.get(entry.record.kind).command(directory.path),
            environment=environment,
            keeper_file=str(directory.keeper_file),
            status_file=str(directory.status_file),
            output_file=str(directory.output_file()),
            earlier_output_file=str(directory.earlier_output_file()),
            log_bytes=self._log_bytes(entry),
            grace_seconds=self._settings.grace_seconds if terms.grace_seconds is None else terms.grace_seconds,
            memory_mb=terms.memory_mb,
            gpus=list(gpus),
            lock=-1,
        )

    def _log_bytes(self, entry: Entry) -> int:
        asked = entry.ticket.terms.log_bytes if entry.ticket is not None else None
        return self._settings.log_bytes if asked is None else asked

    # Runs of others

    def _scan(self) -> None:
        """New, changed and removed directories: `palaestra train` needs no daemon, and is listed all the same."""
        if self._clock.monotonic() < self._scan_at:
            return
        self._scan_at = self._clock.monotonic() + self._settings.scan_seconds
        found = run_ids(self._root)
        known = self._roster.ids()
        for run_id in known - found:
            if run_id not in self._kept:
                self._roster.drop(run_id)
        for run_id in sorted(found - known):
            self._notice(run_id)
        unsettled = self._roster.in_states([*ACTIVE, RunState.QUEUED])
        active = {entry.id for entry in unsettled if not entry.is_waiting} - self._kept.keys()
        for run_id in active | self._some_of(sorted(known & found)):
            if run_id not in self._kept:
                self._notice(run_id)

    def _some_of(self, ids: list[str]) -> set[str]:
        """Old runs are looked at in turn, so that a scan costs the same however many there are."""
        begin = self._scanned if self._scanned < len(ids) else 0
        self._scanned = begin + OLD_ONES_PER_SCAN
        return set(ids[begin : self._scanned])

    def _notice(self, run_id: str) -> None:
        known = self._roster.find(run_id)
        directory = self._directory(run_id)
        is_same = known is not None and known.status_stamp == stamp_of(directory)
        entry = known if known is not None and is_same else look_at(directory, known)
        if known is None and entry.is_waiting:
            return  # being accepted just now, by another thread of ours
        entry = seen(entry)
        if entry != known and directory.path.is_dir():
            self._roster.put(entry, "changed")


def _is_as_before(directory: RunDirectory, known: Entry) -> bool:
    """Over, or waiting without ever having had a keeper, and nobody has touched its status since."""
    if not known.state.is_over and (not known.is_waiting or directory.keeper_lock_file.exists()):
        return False
    return known.status_stamp == stamp_of(directory)
