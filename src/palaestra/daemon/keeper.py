"""One small process per worker that outlives the daemon: it starts the worker, waits for it, and tells how it ended.

It keeps the worker's output short, its memory within limits, and ends its whole tree when told to. Whatever it knows
stands in one file, replaced whole, in which a daemon that comes later finds everything. Only the standard library.

    SIGTERM   stop gently: SIGTERM to the worker, after the grace SIGKILL to its whole tree
    SIGUSR1   no more grace: SIGKILL to the whole tree

See docs/decisions/0010-a-keeper-for-every-worker.md.
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
from palaestra.daemon.tree import RUN_ID_VARIABLE, find_members, find_process, kill_members, resident_bytes, send

PR_SET_CHILD_SUBREAPER = 36
SCHEMA_VERSION = 1
LISTENED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1}
MEMORY_SECONDS = 0.25
LINGER_SECONDS = 0.5  # for what a worker leaves behind, before it is killed
KILL_SECONDS = 5.0
SHORTEST_SECONDS = 0.02
MEBIBYTE = 1 << 20
NOT_STARTED = 127
FULL_DISK_SECONDS = 60.0  # how long to try to leave word of the end


@dataclass(frozen=True)
class Charge:
    """What a keeper is told to do; travels as JSON."""

    run: str
    attempt: int
    argv: list[str]
    environment: dict[str, str]  # of the worker, beyond the keeper's own
    keeper_file: str
    status_file: str
    output_file: str
    earlier_output_file: str
    log_bytes: int
    grace_seconds: float
    memory_mb: int  # 0: no limit
    gpus: list[int]
    lock: int  # descriptor; held for as long as this process lives


class Keeper:
    def __init__(self, charge: Charge) -> None:
        self._charge = charge
        self._log = OutputLog(Path(charge.output_file), Path(charge.earlier_output_file), charge.log_bytes)
        self._worker = 0
        self._is_started = self._is_noted = False
        self._ended_at = float("inf")
        self._kill_at = float("inf")
        self._memory_at = 0.0
        self._note: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "run": charge.run,
            "attempt": charge.attempt,
            "keeper": _identity(os.getpid()),
            "worker": None,
            "gpus": charge.gpus,
            "stopping": False,
            "out_of_memory": False,
            "exit": None,
        }

    def keep(self) -> int:
        fcntl.fcntl(self._charge.lock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, LISTENED)
        self._write_note()
        self._start()
        while self._is_wanted():
            self._hear(self._log.tend())
            self._reap()
            if not self._is_noted:
                self._write_note()
            self._watch_memory()
            if time.monotonic() > self._kill_at:
                kill_members(self._members, KILL_SECONDS, self._reap)
        self._log.tend()
        with contextlib.suppress(ChildProcessError):
            while True:  # all are dead; none stays a zombie where nobody else would wait for it
                os.waitpid(-1, 0)
        return 0

    def _start(self) -> None:
        """The worker waits until it stands in the note and in the status: none ever runs unrecorded."""
        ready, go = os.pipe()
        self._worker = os.fork()
        if self._worker == 0:
            os.close(go)
            _become(self._charge, ready, self._log)
        os.close(ready)
        self._note["worker"] = _identity(self._worker)
        self._write_note()
        self._is_started = True
        with contextlib.suppress(OSError):  # the daemon knows it anyway
            _mark_running(Path(self._charge.status_file), self._note["worker"])
        os.write(go, b"!")
        os.close(go)

    def _is_wanted(self) -> bool:
        """As long as anyone is left, or the end could not be written down yet."""
        if self._note["exit"] is None or self._members():
            return True
        return not self._is_noted and time.monotonic() < self._ended_at + FULL_DISK_SECONDS

    def _members(self) -> list[Any]:
        return find_members(self._charge.run, os.getpid())

    def _hear(self, seconds: float) -> None:
        wait = min(seconds, max(SHORTEST_SECONDS, self._kill_at - time.monotonic()))
        if self._charge.memory_mb:
            wait = min(wait, MEMORY_SECONDS)
        heard = signal.sigtimedwait(LISTENED, wait)
        if heard is None or heard.si_signo == signal.SIGCHLD:
            return
        if heard.si_signo == signal.SIGUSR1:
            self._kill_at = 0.0
        elif not self._note["stopping"]:
            self._kill_at = min(self._kill_at, time.monotonic() + self._charge.grace_seconds)
            self._signal_worker()
        if not self._note["stopping"]:
            self._note["stopping"] = True
            self._write_note()

    def _signal_worker(self) -> None:
        worker = find_process(self._worker)
        if worker is not None:
            send(worker, signal.SIGTERM)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._worker and self._note["exit"] is None:
                    self._ended(found[1])

    def _ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._log.tend()
        self._ended_at = time.monotonic()
        self._note["exit"] = {"code": code, "at": time.time(), "dropped_bytes": self._log.dropped}
        self._write_note()
        self._kill_at = min(self._kill_at, time.monotonic() + LINGER_SECONDS)

    def _watch_memory(self) -> None:
        if not self._charge.memory_mb or time.monotonic() < self._memory_at or self._note["exit"] is not None:
            return
        self._memory_at = time.monotonic() + MEMORY_SECONDS
        used = resident_bytes(self._members()) // MEBIBYTE
        if used > self._charge.memory_mb:
            self._note["out_of_memory"] = True
            self._note["used_mb"] = used
            self._write_note()
            self._kill_at = 0.0

    def _write_note(self) -> None:
        """Before the worker runs, a full disk means that it does not; after that, that it is tried again."""
        self._is_noted = False
        try:
            _replace(Path(self._charge.keeper_file), json.dumps(self._note, indent=2))
            self._is_noted = True
        except FileNotFoundError:
            self._is_noted = True  # the run was removed: nobody will ask
        except OSError:
            if not self._is_started:
                raise


def _identity(pid: int) -> dict[str, float]:
    found = find_process(pid)
    assert found is not None, "it is ourselves, or a child that waits for us"
    return {"pid": pid, "started_at": found.started_at}


def _become(charge: Charge, ready: int, log: OutputLog) -> None:
    """In the child: a session of its own, the log as output, and then another program. Never returns."""
    try:
        os.close(charge.lock)  # only the keeper keeps
        os.setsid()
        output = log.open()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, source in enumerate((nothing, output, output)):
            os.dup2(source, number)
        if os.read(ready, 1) != b"!":  # the keeper died before it could write us down
            os._exit(NOT_STARTED)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, LISTENED)
        variables = {**os.environ, **charge.environment, RUN_ID_VARIABLE: charge.run}
        os.execvpe(charge.argv[0], charge.argv, variables)  # noqa: S606  no shell is the point
    except OSError as error:
        os.write(2, f"palaestra: {charge.argv[0]} cannot be started: {error}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _mark_running(path: Path, worker: dict[str, float]) -> None:
    """On behalf of workers that say nothing themselves; one that does writes over it."""
    status: dict[str, Any] = json.loads(path.read_bytes())
    now = time.time()
    status |= {"state": "running", "pid": worker["pid"], "pid_started_at": worker["started_at"], "started_at": now}
    status |= {"ended_at": None, "updated_at": now, "exit_code": None, "failure": ""}
    _replace(path, json.dumps(status, indent=2, ensure_ascii=False))


def _replace(path: Path, text: str) -> None:
    """Whole and durable: after a power cut nobody may take a run for one that was never started."""
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


def main(charge: str) -> int:
    return Keeper(Charge(**json.loads(charge))).keep()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
