"""The daemon's thread for processes: starts queued runs, watches running ones and records their end.

It never blocks on a worker: the end of a monitor makes its pidfd readable, and files are polled a few times a second.
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
from palaestra.daemon.monitor_handle import MonitoredRun, is_running, start_monitor
from palaestra.daemon.output_log import OutputLog
from palaestra.daemon.process_tree import find_members, kill_members
from palaestra.daemon.queue import Placement, find_placements
from palaestra.daemon.run_monitor import MonitorSettings
from palaestra.daemon.run_outcome import fail_run, finalize_run, read_record_or
from palaestra.daemon.run_scan import (
    StartupState,
    find_startup_state,
    list_run_ids,
    read_entry,
    refresh_external,
    status_stamp_of,
)
from palaestra.rendering.frame_buffer import remove_dead_frame_buffers
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import Journal
from palaestra.runs.processes import is_alive
from palaestra.runs.status import ACTIVE
from palaestra.runs.store import ENVIRONMENT_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.core.clock import Clock
    from palaestra.daemon.run_entry import RunEntry
    from palaestra.daemon.run_table import RunTable
    from palaestra.daemon.settings import DaemonSettings
    from palaestra.daemon.worker_kinds import WorkerKinds

logger = logging.getLogger(__name__)

MONITOR_TIMEOUT_SECONDS = 1.0  # after the grace period, for a monitor that does not respond
RETRY_START_SECONDS = 1.0  # after a process could not be started
OLD_RUNS_PER_SCAN = 500


class Supervisor:
    """Owns the supervisor thread and all monitored runs."""

    def __init__(
        self, root: Path, run_table: RunTable, kinds: WorkerKinds, settings: DaemonSettings, clock: Clock
    ) -> None:
        self._root = root
        self._run_table = run_table
        self._kinds = kinds
        self._settings = settings
        self._clock = clock
        self._monitored: dict[str, MonitoredRun] = {}
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_closing = False
        self._start_at = self._scan_at = 0.0
        self._scan_position = 0
        self._thread = threading.Thread(target=self._run, name="palaestra-supervisor", daemon=True)

    def scan_all(self) -> None:
        """At startup: classifies every run of the directory, and adopts those whose worker was started by a daemon."""
        found = list_run_ids(self._root)
        with self._run_table.transaction():
            for run_id in self._run_table.ids() - found:
                self._run_table.remove(run_id)
            for run_id in sorted(found):
                directory = self._directory(run_id)
                known = self._run_table.find(run_id)
                if known is None or not _is_unchanged(directory, known):
                    self._register(directory, read_entry(directory, known))
        remove_dead_frame_buffers(is_alive)
        self._scan_at = self._clock.monotonic() + self._settings.scan_seconds

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; workers and their monitors continue."""
        self._is_closing = True
        self.wake()
        self._thread.join()
        for monitored_run in self._monitored.values():
            monitored_run.close()
        os.close(self._wake_fd)

    def wake(self) -> None:
        """Wakes the thread, because a run may be ready to start."""
        self._start_at = 0.0
        os.eventfd_write(self._wake_fd, 1)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def is_monitored(self, run_id: str) -> bool:
        return run_id in self._monitored

    def running(self) -> list[RunEntry]:
        """Returns the runs that occupy slots."""
        with self._run_table.lock:
            return [entry for run_id in self._monitored if (entry := self._run_table.find(run_id)) is not None]

    def stop(self, entry: RunEntry, grace_seconds: float) -> None:
        """Stops a run, and kills its process tree after the grace period; at once on a second call or without grace."""
        monitored_run = self._monitored[entry.id]
        if monitored_run.is_stopping or grace_seconds <= 0:
            monitored_run.kill_at = min(monitored_run.kill_at, self._clock.monotonic())
        else:
            monitored_run.kill_at = self._clock.monotonic() + grace_seconds
        monitored_run.request_stop()
        self._run_table.put(replace(entry, record=replace(entry.record, state=RunState.STOPPING)), "changed")
        self.wake()

    def _directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self._root / run_id)

    # Runs found at startup

    def _register(self, directory: RunDirectory, entry: RunEntry) -> None:
        startup_state = find_startup_state(directory, entry)
        if startup_state is StartupState.EXTERNAL:
            entry = refresh_external(entry)
        self._run_table.put_without_event(entry)
        if startup_state in {StartupState.MONITORED, StartupState.UNMONITORED, StartupState.UNRECORDED}:
            assert entry.submission is not None
            self._adopt(entry, MonitoredRun(directory, entry.submission.attempt))

    def _adopt(self, entry: RunEntry, monitored_run: MonitoredRun) -> None:
        self._monitored[entry.id] = monitored_run
        monitored_run.last_output_at = self._clock.monotonic()
        monitored_run.find_monitor()
        monitor_record = monitored_run.monitor_record()
        gpus = monitor_record.gpus if monitor_record is not None else ()
        monitored_run.is_stopping = monitor_record is not None and monitor_record.is_stopping
        if monitored_run.is_stopping:
            monitored_run.kill_at = self._clock.monotonic() + self._settings.grace_seconds
        state = RunState.STOPPING if monitored_run.is_stopping else RunState.RUNNING
        self._run_table.put(replace(entry, gpus=gpus, record=replace(entry.record, state=state)), "changed")

    # Loop

    def _run(self) -> None:
        while not self._is_closing:
            self._wait_for_events()
            with self._run_table.lock:
                try:
                    self._check_all()
                except OSError as error:  # no file descriptors, disk unavailable: try again
                    logger.warning("Supervision of runs failed, trying again: %s.", error)

    def _check_all(self) -> None:
        if self._is_closing:  # while we listened
            return
        for run_id, monitored_run in list(self._monitored.items()):
            self._check_run(run_id, monitored_run)
        self._start_waiting()
        self._scan()

    def _wait_for_events(self) -> None:
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        with self._run_table.lock:
            for monitored_run in self._monitored.values():
                if monitored_run.pidfd is not None:
                    poll.register(monitored_run.pidfd, select.POLLIN)
        poll.poll(self._settings.tick_seconds * 1000)
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return

    def _check_run(self, run_id: str, monitored_run: MonitoredRun) -> None:
        if monitored_run.pidfd is None and monitored_run.find_monitor() and monitored_run.is_stopping:
            monitored_run.request_stop()  # requested before the process of the monitor was known
        if monitored_run.has_ended():
            self._finish(run_id, monitored_run)
            return
        entry = self._run_table.find(run_id)
        if entry is None:
            return
        self._refresh(entry, monitored_run)
        if not monitored_run.has_monitor:
            directory = monitored_run.directory
            OutputLog(directory.output_file(), directory.earlier_output_file(), self._log_bytes(entry)).trim()
        self._enforce_deadline(monitored_run)

    def _refresh(self, entry: RunEntry, monitored_run: MonitoredRun) -> None:
        now = self._clock.monotonic()
        self._record_start(monitored_run)
        stamp = status_stamp_of(monitored_run.directory)
        if monitored_run.has_new_output():
            monitored_run.last_output_at = now
            if entry.is_silent:
                entry = replace(entry, is_silent=False)
                self._run_table.update_in_memory(entry)
        if stamp != entry.status_stamp:
            record = read_record_or(monitored_run.directory, entry.record)
            state = (
                RunState.STOPPING
                if monitored_run.is_stopping or record.state is RunState.STOPPING
                else RunState.RUNNING
            )
            # The worker may have written its final status; the run is over only when its processes are gone.
            record = replace(record, state=state, exit_code=None, ended_at=None)
            self._run_table.update_in_memory(replace(entry, record=record, status_stamp=stamp))
        elif not entry.is_silent and now - monitored_run.last_output_at > self._settings.silence_seconds:
            self._run_table.update_in_memory(replace(entry, is_silent=True))

    def _record_start(self, monitored_run: MonitoredRun) -> None:
        """Records the start once and before the end: a worker may end before it was first checked."""
        if (
            not monitored_run.is_start_recorded
            and (monitor_record := monitored_run.monitor_record()) is not None
            and monitor_record.worker is not None
        ):
            monitored_run.is_start_recorded = True
            Journal(monitored_run.directory, self._clock).record(
                "worker.started",
                pid=monitor_record.worker.pid,
                attempt=monitor_record.attempt,
                command=monitored_run.command,
                gpus=list(monitor_record.gpus),
            )

    def _enforce_deadline(self, monitored_run: MonitoredRun) -> None:
        late = self._clock.monotonic() - monitored_run.kill_at
        if late > MONITOR_TIMEOUT_SECONDS:
            logger.warning("The monitor of run %s does not stop it; the daemon kills it.", monitored_run.directory.id)
            monitored_run.kill_tree()
        elif late > 0:
            monitored_run.kill()

    def _finish(self, run_id: str, monitored_run: MonitoredRun) -> None:
        monitor_record = monitored_run.monitor_record()
        if (
            monitor_record is not None
            and monitor_record.worker is not None
            and not monitor_record.has_ended
            and is_running(monitor_record.worker)
        ):
            logger.warning("The monitor of run %s has died; its worker continues.", run_id)
            monitored_run.watch_worker(monitor_record.worker)
            if monitored_run.is_stopping:
                monitored_run.request_stop()
            return
        self._record_start(monitored_run)
        left = kill_members(lambda: find_members(run_id, None), MONITOR_TIMEOUT_SECONDS)
        if left:
            logger.warning("%d processes of run %s could not be killed.", left, run_id)
        monitored_run.close()
        del self._monitored[run_id]
        remove_dead_frame_buffers(is_alive)
        self._start_at = 0.0
        entry = self._run_table.find(run_id)
        if entry is None or entry.submission is None:
            return
        if monitor_record is None or monitor_record.worker is None:
            record = fail_run(monitored_run.directory, entry.record, self._clock, is_stopped=monitored_run.is_stopping)
        else:
            record = finalize_run(
                monitored_run.directory,
                entry.record,
                entry.submission,
                monitor_record,
                self._clock,
                is_stopped=monitored_run.is_stopping,
            )
        ended = replace(
            entry, record=record, gpus=(), is_silent=False, status_stamp=status_stamp_of(monitored_run.directory)
        )
        self._run_table.put(ended, "ended")

    # Starting

    def _start_waiting(self) -> None:
        if self._clock.monotonic() < self._start_at:
            return
        self._start_at = float("inf")  # until wake() or the end of a worker
        for placement in find_placements(self._run_table.waiting(), self.running(), self._settings.machine):
            self._try_to_start(placement)

    def _try_to_start(self, placement: Placement) -> None:
        entry, directory = placement.entry, self._directory(placement.entry.id)
        assert entry.submission is not None
        now = read_entry(directory, entry)
        if find_startup_state(directory, now) is not StartupState.WAITING or now.submission is None:
            self._register(directory, now)  # continued by another process, or an old monitor is still ending
            return
        try:
            settings = self._monitor_settings(directory, now, placement.gpus)
            child = start_monitor(directory, settings)
        except PalaestraError as error:
            record = fail_run(directory, entry.record, self._clock, reason=str(error))
            self._run_table.put(replace(now, record=record, status_stamp=status_stamp_of(directory)), "ended")
            return
        except OSError as error:
            logger.warning("Could not start run %s, trying again: %s.", entry.id, error)
            self._start_at = self._clock.monotonic() + RETRY_START_SECONDS
            return
        self._monitored[entry.id] = monitored_run = MonitoredRun(directory, entry.submission.attempt, child)
        monitored_run.last_output_at = self._clock.monotonic()
        monitored_run.command = settings.argv
        record = replace(now.record, state=RunState.RUNNING)
        self._run_table.put(replace(now, gpus=placement.gpus, record=record), "started")

    def _monitor_settings(self, directory: RunDirectory, entry: RunEntry, gpus: tuple[int, ...]) -> MonitorSettings:
        assert entry.submission is not None
        options = entry.submission.options
        environment = {ENVIRONMENT_VARIABLE: str(self._root), "PYTHONFAULTHANDLER": "1", "NO_COLOR": "1"}
        if self._settings.machine.gpus and entry.submission.executor == "local":
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
        return MonitorSettings(
            run=entry.id,
            attempt=entry.submission.attempt,
            argv=self._kinds.get(entry.record.kind).command(directory.path),
            environment=environment,
            monitor_file=str(directory.monitor_file),
            status_file=str(directory.status_file),
            output_file=str(directory.output_file()),
            earlier_output_file=str(directory.earlier_output_file()),
            log_bytes=self._log_bytes(entry),
            grace_seconds=self._settings.grace_seconds if options.grace_seconds is None else options.grace_seconds,
            memory_mb=options.memory_mb,
            gpus=list(gpus),
            lock=-1,
        )

    def _log_bytes(self, entry: RunEntry) -> int:
        limit = entry.submission.options.log_bytes if entry.submission is not None else None
        return self._settings.log_bytes if limit is None else limit

    # External runs

    def _scan(self) -> None:
        """Finds new, changed and removed directories: runs of `palaestra train` are listed too."""
        if self._clock.monotonic() < self._scan_at:
            return
        self._scan_at = self._clock.monotonic() + self._settings.scan_seconds
        found = list_run_ids(self._root)
        known = self._run_table.ids()
        for run_id in known - found:
            if run_id not in self._monitored:
                self._run_table.remove(run_id)
        for run_id in sorted(found - known):
            self._update_external(run_id)
        unfinished = self._run_table.in_states([*ACTIVE, RunState.QUEUED])
        active = {entry.id for entry in unfinished if not entry.is_waiting} - self._monitored.keys()
        for run_id in active | self._next_batch(sorted(known & found)):
            if run_id not in self._monitored:
                self._update_external(run_id)

    def _next_batch(self, ids: list[str]) -> set[str]:
        """Returns the next old runs to check, so that a scan costs the same for any number of runs."""
        begin = self._scan_position if self._scan_position < len(ids) else 0
        self._scan_position = begin + OLD_RUNS_PER_SCAN
        return set(ids[begin : self._scan_position])

    def _update_external(self, run_id: str) -> None:
        known = self._run_table.find(run_id)
        directory = self._directory(run_id)
        is_same = known is not None and known.status_stamp == status_stamp_of(directory)
        entry = known if known is not None and is_same else read_entry(directory, known)
        if known is None and entry.is_waiting:
            return  # being accepted by another thread
        entry = refresh_external(entry)
        if entry != known and directory.path.is_dir():
            self._run_table.put(entry, "changed")


def _is_unchanged(directory: RunDirectory, known: RunEntry) -> bool:
    """Whether it is over or queued without ever having had a monitor, and its status has not changed."""
    if not known.state.is_over and (not known.is_waiting or directory.monitor_lock_file.exists()):
        return False
    return known.status_stamp == status_stamp_of(directory)
