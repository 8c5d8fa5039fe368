"""Finds all processes of a run: descendants of its monitor, and processes with its id in their environment.

A monitor is a subreaper, so that a process that forks twice or opens a session still becomes its child. Without the
monitor, the run's id in the environment remains, which every child inherits. Standard library only, for monitors.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_ID_VARIABLE = "PALAESTRA_RUN_ID"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STATE, PARENT, START_TICKS = 0, 1, 19  # fields of /proc/PID/stat, counted after the command's closing bracket
DEAD = {"Z", "X"}
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Process:
    """A process with its start time, because the kernel reuses pids."""

    pid: int
    parent: int
    started_at: float  # seconds since boot, as in palaestra.runs.processes


def find_process(pid: int) -> Process | None:
    """Returns None if there is none, or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # other errors, such as no free descriptors, do not mean "gone"
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[STATE] in DEAD:
        return None
    return Process(pid, int(fields[PARENT]), int(fields[START_TICKS]) / TICKS_PER_SECOND)


def all_processes() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  half the time of Paths
    return [found for pid in pids if (found := find_process(pid)) is not None]


def find_members(run_id: str, monitor_pid: int | None) -> list[Process]:
    """Returns descendants of the monitor and processes with the run's id, with their descendants; not the monitor."""
    table = all_processes()
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    to_visit = [
        process
        for process in table
        if process.pid not in {monitor_pid, os.getpid()} and _has_run_id(process.pid, run_id)
    ]
    to_visit += children.get(monitor_pid, []) if monitor_pid is not None else []
    found: dict[int, Process] = {}
    while to_visit:
        process = to_visit.pop()
        if process.pid not in found:
            found[process.pid] = process
            to_visit += children.get(process.pid, [])
    return list(found.values())


def send_signal(process: Process, number: int) -> bool:
    """Sends a signal to exactly this process. Returns False if it is gone."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        found = find_process(process.pid)  # while the pidfd is open, the pid is not reused
        if found is None or found.started_at != process.started_at:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):  # gone, or it changed its user
        return False
    finally:
        os.close(pidfd)
    return True


def kill_members(find: Callable[[], list[Process]], seconds: float, reap: Callable[[], None] | None = None) -> int:
    """Sends SIGKILL until no process is found, also new ones. Returns how many are left after `seconds`."""
    deadline = time.monotonic() + seconds
    while members := find():
        for process in members:
            send_signal(process, signal.SIGKILL)
        if reap is not None:
            reap()
        if time.monotonic() > deadline:
            return len(find())
        time.sleep(POLL_SECONDS)
    return 0


def resident_bytes(processes: list[Process]) -> int:
    """Returns their total memory; shared pages count once (PSS)."""
    return sum(_proportional_bytes(process.pid) for process in processes)


def _proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:  # it has ended
        return 0
    return 0


def _has_run_id(pid: int, run_id: str) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return False
    return f"{RUN_ID_VARIABLE}={run_id}".encode() in variables.split(b"\0")
