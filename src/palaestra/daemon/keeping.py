"""The daemon's side of a keeper: starting one, reading what it noted, telling it to stop."""

from __future__ import annotations

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
from palaestra.daemon.keeper import LISTENED, SCHEMA_VERSION, Charge
from palaestra.daemon.tree import RUN_ID_VARIABLE, Process, find_process, send
from palaestra.runs.files import read_json
from palaestra.runs.schema import unstamped

if TYPE_CHECKING:
    from palaestra.runs.directory import RunDirectory

SOURCE = str(Path(__file__).parents[2])
# -I -S: no site-packages, no user's settings; it starts in some milliseconds.
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from palaestra.daemon.keeper import main; sys.exit(main(sys.argv[2]))"
)


@dataclass(frozen=True)
class Note:
    """`keeper.json`, as the keeper of one attempt left it."""

    attempt: int
    keeper: Process
    worker: Process | None  # None: it was not started (yet)
    gpus: tuple[int, ...] = ()
    is_stopping: bool = False
    is_out_of_memory: bool = False
    used_mb: int = 0
    has_ended: bool = False
    exit_code: int | None = None  # negative: the signal that ended it
    dropped_bytes: int = 0  # of its output


def read_note(directory: RunDirectory) -> Note | None:
    """None when there is none; a damaged one is as good as none. OSError when it cannot be opened just now."""
    path = directory.keeper_file
    try:
        data = unstamped(read_json(path), SCHEMA_VERSION, path)
        ended: dict[str, Any] = data["exit"] or {}
        return Note(
            attempt=int(data["attempt"]),
            keeper=_process(data["keeper"]),
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


def is_kept(directory: RunDirectory) -> bool:
    """Does a keeper of this run live, also one that is only just being started?

    The daemon takes the lock and hands it to the keeper, so there is no instant at which neither has it.
    """
    try:
        descriptor = os.open(directory.keeper_lock_file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def start_keeper(directory: RunDirectory, charge: Charge) -> int:
    """Its pid; OSError when no process can be had. The charge's lock is filled in here; it must be free."""
    lock = os.open(directory.keeper_lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = json.dumps({**asdict(charge), "lock": lock})
        with directory.keeper_log_file().open("ab") as log:
            return _spawn([sys.executable, "-I", "-S", "-c", START, SOURCE, text], lock, log.fileno())
    finally:
        os.close(lock)


def _spawn(command: list[str], lock: int, log: int) -> int:
    """With its signals held back from the start, so that none is lost, or ends it, before it can listen."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, LISTENED)
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
        child.returncode = 0  # it may outlive us, of which Popen would complain; we wait for it ourselves, see Kept
        return child.pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ask_to_stop(keeper: Process) -> bool:
    return send(keeper, signal.SIGTERM)


def ask_to_kill(keeper: Process) -> bool:
    return send(keeper, signal.SIGUSR1)


def still_there(process: Process) -> bool:
    found = find_process(process.pid)
    return found is not None and found.started_at == process.started_at


def _process(data: dict[str, Any]) -> Process:
    return Process(int(data["pid"]), 0, float(data["started_at"]))
