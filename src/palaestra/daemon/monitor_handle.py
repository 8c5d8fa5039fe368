"""The daemon's side of a run monitor: start it, read its record, stop it, notice its end."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.daemon.process_tree import (
    RUN_ID_VARIABLE,
    Process,
    find_members,
    find_process,
    kill_members,
    send_signal,
)
from palaestra.daemon.run_monitor import HANDLED_SIGNALS, SCHEMA_VERSION, MonitorSettings
from palaestra.runs.files import read_json, unstamped

if TYPE_CHECKING:
    from palaestra.runs.directory import RunDirectory

SOURCE = str(Path(__file__).parents[2])
# -I -S: no site-packages and no user settings, so that it starts within milliseconds.
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from palaestra.daemon.run_monitor import main; sys.exit(main(sys.argv[2]))"
)
KILL_SECONDS = 2.0
SIGTERM, SIGKILL = 15, 9


@dataclass(frozen=True)
class MonitorRecord:
    """The content of `keeper.json`, written by the monitor of one attempt."""

    attempt: int
    monitor: Process
    worker: Process | None  # None: not started (yet)
    gpus: tuple[int, ...] = ()
    is_stopping: bool = False
    is_out_of_memory: bool = False
    used_mb: int = 0
    has_ended: bool = False
    exit_code: int | None = None  # negative: number of a signal
    dropped_bytes: int = 0  # of its output


def read_monitor_record(directory: RunDirectory) -> MonitorRecord | None:
    """Returns None without a valid record. Raises OSError when the file cannot be opened at the moment."""
    path = directory.monitor_file
    try:
        data = unstamped(read_json(path), SCHEMA_VERSION, path)
        ended: dict[str, Any] = data["exit"] or {}
        return MonitorRecord(
            attempt=int(data["attempt"]),
            monitor=_process(data["monitor"] if "monitor" in data else data["keeper"]),  # "keeper" until 0.1
            worker=None if data["worker"] is None else _process(data["worker"]),
            gpus=tuple(int(index) for index in data["gpus"]),
            is_stopping=bool(data["stopping"]),
            is_out_of_memory=bool(data["out_of_memory"]),
            used_mb=int(data.get("used_mb", 0)),
            has_ended=data["exit"] is not None,
            exit_code=None if not ended else int(ended["code"]),
            dropped_bytes=int(ended.get("dropped_bytes", 0)),
        )
    except DamagedFile as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        return None
    except (NotFound, KeyError, TypeError, ValueError):
        return None


def is_monitored(directory: RunDirectory) -> bool:
    """Returns whether a monitor of this run is alive or is being started.

    The daemon takes the lock and passes it to the monitor, so one of the two always holds it.
    """
    try:
        descriptor = os.open(directory.monitor_lock_file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def start_monitor(directory: RunDirectory, settings: MonitorSettings) -> int:
    """Starts a monitor and returns its pid. Sets `settings.lock`. Raises OSError if no process can be started."""
    lock = os.open(directory.monitor_lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = json.dumps({**asdict(settings), "lock": lock})
        with directory.monitor_log_file().open("ab") as log:
            return _spawn([sys.executable, "-I", "-S", "-c", START, SOURCE, text], lock, log.fileno())
    finally:
        os.close(lock)


def _spawn(command: list[str], lock: int, log: int) -> int:
    """Starts the process with its signals blocked, so that none is lost or kills it before it handles them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={name: value for name, value in os.environ.items() if name != RUN_ID_VARIABLE},
            pass_fds=(lock,),
            start_new_session=True,
        )
        child.returncode = 0  # no warning of Popen if it outlives this process; MonitoredRun waits for it
        return child.pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def request_stop(monitor: Process) -> bool:
    return send_signal(monitor, signal.SIGTERM)


def request_kill(monitor: Process) -> bool:
    return send_signal(monitor, signal.SIGUSR1)


def is_running(process: Process) -> bool:
    found = find_process(process.pid)
    return found is not None and found.started_at == process.started_at


def _process(data: dict[str, Any]) -> Process:
    return Process(int(data["pid"]), 0, float(data["started_at"]))


class MonitoredRun:
    """A running worker and its monitor, watched through a pidfd: the monitor is a child or was adopted."""

    def __init__(self, directory: RunDirectory, attempt: int, child: int | None = None) -> None:
        self.directory = directory
        self.attempt = attempt
        self.has_monitor = True
        self.is_stopping = False
        self.kill_at = float("inf")  # monotonic seconds; when the daemon kills the run itself
        self.last_output_at = 0.0
        self.command: list[str] = []
        self._output_stamps: list[int] = []
        self.is_start_recorded = child is None  # in the journal; an adopted one was recorded before
        self.pidfd: int | None = None  # a pidfd
        self._process = find_process(child) if child is not None else None
        self._open()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def monitor_record(self) -> MonitorRecord | None:
        found = read_monitor_record(self.directory)
        return found if found is not None and found.attempt == self.attempt else None

    def find_monitor(self) -> bool:
        """Finds the process of a monitor that was being started when its daemon died."""
        if self.pidfd is None and (monitor_record := self.monitor_record()) is not None:
            self._process = monitor_record.monitor
            self._open()
        return self.pidfd is not None

    def watch_worker(self, worker: Process) -> None:
        """Watches the worker itself, after its monitor has died."""
        self.close()
        self.has_monitor = False
        self._process = worker
        self._open()

    def has_ended(self) -> bool:
        if self._process is None:
            return not is_monitored(self.directory)
        return not is_running(self._process)

    def has_new_output(self) -> bool:
        """Returns whether status or output changed since the last call."""
        before = self._output_stamps
        self._output_stamps = [_changed_at(self.directory.status_file), _changed_at(self.directory.output_file())]
        return self._output_stamps != before

    def request_stop(self) -> None:
        """Asks the worker to stop."""
        self.is_stopping = True
        if self._process is None:
            return
        if self.has_monitor:
            request_stop(self._process)
        else:
            send_signal(self._process, SIGTERM)

    def kill(self) -> None:
        """Kills the process tree, through the monitor if there is one."""
        if self._process is None:
            return
        if self.has_monitor:
            request_kill(self._process)
        else:
            self.kill_tree()

    def kill_tree(self) -> int:
        """Kills all processes of the run and its monitor. Returns the number that are left."""
        monitor = self._process if self.has_monitor else None
        left = kill_members(lambda: find_members(self.directory.id, monitor.pid if monitor else None), KILL_SECONDS)
        if self._process is not None:  # during an exec a worker has no environment for an instant
            send_signal(self._process, SIGKILL)
        return left

    def close(self) -> None:
        """Closes the pidfd and collects the zombie, if the monitor was a child."""
        if self.pidfd is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
            os.close(self.pidfd)
            self.pidfd = None

    def _open(self) -> None:
        """Opens the pidfd; there is none if the process has ended already."""
        if self._process is None:
            return
        try:
            pidfd = os.pidfd_open(self._process.pid)
        except OSError:
            return
        if is_running(self._process):
            self.pidfd = pidfd
        else:
            os.close(pidfd)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
