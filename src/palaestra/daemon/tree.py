"""All processes of one run, wherever they have hidden: children of its keeper, and whoever carries its id.

A keeper is a subreaper, so that a process which forks twice or opens a session of its own still ends up as its child.
Should the keeper be gone, the run's id in the environment, which every child inherits, remains.
Only the standard library: keepers run without anything else.
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
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Process:
    """One process, ever: a pid alone may belong to a stranger by the time it is used."""

    pid: int
    parent: int
    started_at: float  # seconds since boot, as in palaestra.runs.processes


def find_process(pid: int) -> Process | None:
    """None for none, and for a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # nothing else may pass for "gone", such as a lack of descriptors
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[STATE] in DEAD:
        return None
    return Process(pid, int(fields[PARENT]), int(fields[START_TICKS]) / TICKS_PER_SECOND)


def all_processes() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  half the time of Paths
    return [found for pid in pids if (found := find_process(pid)) is not None]


def find_members(run_id: str, keeper_pid: int | None) -> list[Process]:
    """Of the run: descendants of its keeper, carriers of its id, and their descendants; never the keeper itself."""
    table = all_processes()
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    to_visit = [
        process for process in table if process.pid not in {keeper_pid, os.getpid()} and _carries(process.pid, run_id)
    ]
    to_visit += children.get(keeper_pid, []) if keeper_pid is not None else []
    found: dict[int, Process] = {}
    while to_visit:
        process = to_visit.pop()
        if process.pid not in found:
            found[process.pid] = process
            to_visit += children.get(process.pid, [])
    return list(found.values())


def send(process: Process, number: int) -> bool:
    """Signal that process and no other; False when it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        found = find_process(process.pid)  # with the handle open the pid cannot change hands any more
        if found is None or found.started_at != process.started_at:
            return False
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):  # gone, or it took on another user's rights
        return False
    finally:
        os.close(handle)
    return True


def kill_members(find: Callable[[], list[Process]], seconds: float, reap: Callable[[], None] | None = None) -> int:
    """SIGKILL until nobody is found any more, also those who are born meanwhile; how many are left after `seconds`."""
    deadline = time.monotonic() + seconds
    while members := find():
        for process in members:
            send(process, signal.SIGKILL)
        if reap is not None:
            reap()
        if time.monotonic() > deadline:
            return len(find())
        time.sleep(LOOK_SECONDS)
    return 0


def resident_bytes(processes: list[Process]) -> int:
    """Memory they hold together; pages that several share count once between them."""
    return sum(_proportional_bytes(process.pid) for process in processes)


def _proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:  # gone by now
        return 0
    return 0


def _carries(pid: int, run_id: str) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, or somebody else's
        return False
    return f"{RUN_ID_VARIABLE}={run_id}".encode() in variables.split(b"\0")
