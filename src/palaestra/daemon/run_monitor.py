"""The run monitor: a small process per worker that starts it, waits for it and records how it ended.

It outlives the daemon. It limits the worker's output and memory, and kills its process tree on request. It stores its
state in one file (`keeper.json`), replaced atomically, which the next daemon reads. Standard library only.

    SIGTERM   stop: SIGTERM to the worker, after the grace period SIGKILL to its process tree
    SIGUSR1   kill: SIGKILL to the process tree

See docs/decisions/0010-a-monitor-for-every-worker.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.daemon.output_log import OutputLog
from palaestra.daemon.process_tree import (
    RUN_ID_VARIABLE,
    find_members,
    find_process,
    kill_members,
    resident_bytes,
    send_signal,
)

PR_SET_CHILD_SUBREAPER = 36
SCHEMA_VERSION = 1
HANDLED_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1}
MEMORY_SECONDS = 0.25
LEFTOVER_SECONDS = 0.5  # for processes that outlive the worker, before they are killed
KILL_SECONDS = 5.0
MIN_WAIT_SECONDS = 0.02
MEBIBYTE = 1 << 20
NOT_STARTED = 127
FULL_DISK_SECONDS = 60.0  # how long to retry writing the exit code


@dataclass(frozen=True)
class MonitorSettings:
    """Arguments of a monitor, passed as JSON."""

    run: str
    attempt: int
    argv: list[str]
    environment: dict[str, str]  # of the worker, added to the monitor's own
    monitor_file: str
    status_file: str
    output_file: str
    earlier_output_file: str
    log_bytes: int
    grace_seconds: float
    memory_mb: int  # 0: no limit
    gpus: list[int]
    lock: int  # file descriptor, held until this process ends


class RunMonitor:
    """Runs one worker until its whole process tree has ended."""

    def __init__(self, settings: MonitorSettings) -> None:
        self._settings = settings
        self._log = OutputLog(Path(settings.output_file), Path(settings.earlier_output_file), settings.log_bytes)
        self._worker = 0
        self._is_started = self._is_record_written = False
        self._ended_at = float("inf")
        self._kill_at = float("inf")
        self._memory_at = 0.0
        self._record: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "run": settings.run,
            "attempt": settings.attempt,
            "monitor": process_identity(os.getpid()),
            "worker": None,
            "gpus": settings.gpus,
            "stopping": False,
            "out_of_memory": False,
            "exit": None,
        }

    def run(self) -> int:
        fcntl.fcntl(self._settings.lock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        self._write_record()
        self._start()
        while self._is_needed():
            self._wait_for_signal(self._log.trim())
            self._reap()
            if not self._is_record_written:
                self._write_record()
            self._watch_memory()
            if time.monotonic() > self._kill_at:
                kill_members(self._members, KILL_SECONDS, self._reap)
        self._log.trim()
        with contextlib.suppress(ChildProcessError):
            while True:  # all are dead: collect the remaining zombies
                os.waitpid(-1, 0)
        return 0

    def _start(self) -> None:
        """Starts the worker. It waits until it is recorded, so that no worker ever runs unrecorded."""
        ready, go = os.pipe()
        self._worker = os.fork()
        if self._worker == 0:
            os.close(go)
            _exec_worker(self._settings, ready, self._log)
        os.close(ready)
        self._record["worker"] = process_identity(self._worker)
        self._write_record()
        self._is_started = True
        with contextlib.suppress(OSError):  # the daemon updates it too
            _mark_running(Path(self._settings.status_file), self._record["worker"])
        os.write(go, b"!")
        os.close(go)

    def _is_needed(self) -> bool:
        """Whether processes are left, or the exit code could not be written yet."""
        if self._record["exit"] is None or self._members():
            return True
        return not self._is_record_written and time.monotonic() < self._ended_at + FULL_DISK_SECONDS

    def _members(self) -> list[Any]:
        return find_members(self._settings.run, os.getpid())

    def _wait_for_signal(self, seconds: float) -> None:
        wait = min(seconds, max(MIN_WAIT_SECONDS, self._kill_at - time.monotonic()))
        if self._settings.memory_mb:
            wait = min(wait, MEMORY_SECONDS)
        received = signal.sigtimedwait(HANDLED_SIGNALS, wait)
        if received is None or received.si_signo == signal.SIGCHLD:
            return
        if received.si_signo == signal.SIGUSR1:
            self._kill_at = 0.0
        elif not self._record["stopping"]:
            self._kill_at = min(self._kill_at, time.monotonic() + self._settings.grace_seconds)
            self._signal_worker()
        if not self._record["stopping"]:
            self._record["stopping"] = True
            self._write_record()

    def _signal_worker(self) -> None:
        worker = find_process(self._worker)
        if worker is not None:
            send_signal(worker, signal.SIGTERM)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._worker and self._record["exit"] is None:
                    self._ended(found[1])

    def _ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._log.trim()
        self._ended_at = time.monotonic()
        self._record["exit"] = {"code": code, "at": time.time(), "dropped_bytes": self._log.dropped}
        self._write_record()
        self._kill_at = min(self._kill_at, time.monotonic() + LEFTOVER_SECONDS)

    def _watch_memory(self) -> None:
        if not self._settings.memory_mb or time.monotonic() < self._memory_at or self._record["exit"] is not None:
            return
        self._memory_at = time.monotonic() + MEMORY_SECONDS
        used = resident_bytes(self._members()) // MEBIBYTE
        if used > self._settings.memory_mb:
            self._record["out_of_memory"] = True
            self._record["used_mb"] = used
            self._write_record()
            self._kill_at = 0.0

    def _write_record(self) -> None:
        """Writes the state. A failure prevents the start of the worker; later it is retried."""
        self._is_record_written = False
        try:
            _replace(Path(self._settings.monitor_file), json.dumps(self._record, indent=2))
            self._is_record_written = True
        except FileNotFoundError:
            self._is_record_written = True  # the run was removed
        except OSError:
            if not self._is_started:
                raise


def process_identity(pid: int) -> dict[str, float]:
    found = find_process(pid)
    assert found is not None, "this process, or a child that waits for it"
    return {"pid": pid, "started_at": found.started_at}


def _exec_worker(settings: MonitorSettings, ready: int, log: OutputLog) -> None:
    """In the child: opens a new session, redirects the output to the log and executes the worker. Never returns."""
    try:
        os.close(settings.lock)  # held by the monitor only
        os.setsid()
        output = log.open()
        null = os.open(os.devnull, os.O_RDONLY)
        for number, source in enumerate((null, output, output)):
            os.dup2(source, number)
        if os.read(ready, 1) != b"!":  # the monitor died before it recorded this process
            os._exit(NOT_STARTED)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
        variables = {**os.environ, **settings.environment, RUN_ID_VARIABLE: settings.run}
        os.execvpe(settings.argv[0], settings.argv, variables)  # noqa: S606  deliberately without a shell
    except OSError as error:
        os.write(2, f"palaestra: cannot start {settings.argv[0]}: {error}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _mark_running(path: Path, worker: dict[str, float]) -> None:
    """Marks the run as running, for workers that do not update the status themselves."""
    status: dict[str, Any] = json.loads(path.read_bytes())
    now = time.time()
    status |= {"state": "running", "pid": worker["pid"], "pid_started_at": worker["started_at"], "started_at": now}
    status |= {"ended_at": None, "updated_at": now, "exit_code": None, "failure": ""}
    _replace(path, json.dumps(status, indent=2, ensure_ascii=False))


def _replace(path: Path, text: str) -> None:
    """Replaces a file atomically and durably: after a power loss a started run must not look unstarted."""
    temporary = path.with_name(f".tmp-{os.getpid()}-0-{path.name}")
    with temporary.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        temporary.chmod(0o600)
        stream.write(text + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def main(settings: str) -> int:
    return RunMonitor(MonitorSettings(**json.loads(settings))).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
