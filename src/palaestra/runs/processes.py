"""Processes by pid and start time: a pid alone may belong to another process by now."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STATE, START_TICKS = 0, 19  # fields of /proc/PID/stat, counted after the command's closing bracket


def process_started_at(pid: int) -> float | None:
    """When a living process started; None for none, and for a zombie, which does nothing any more.

    On Linux in seconds since boot, because that does not move when somebody sets the clock. Only good for
    comparing with another answer of this function.
    """
    if pid <= 0:
        return None
    if not Path("/proc/self/stat").exists():
        return _started_at_without_proc(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the command may contain blanks and brackets
    if fields[STATE] in {"Z", "X"}:
        return None
    return int(fields[START_TICKS]) / TICKS_PER_SECOND


def wall_time(started_at: float) -> float:
    """An answer of `process_started_at` in seconds since 1970, by the clock as it is set now."""
    if not Path("/proc/self/stat").exists():
        return started_at  # psutil counts from 1970
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - started_at)


def is_alive(pid: int | None, started_at: float | None) -> bool:
    """Is this very process alive? Without a start time any process with that pid will do."""
    if pid is None:
        return False
    found = process_started_at(pid)
    return found is not None and (started_at is None or found == started_at)


def terminate(pid: int, started_at: float, signal_number: int = signal.SIGTERM) -> bool:
    """Signal that process and no other; False when it is gone. On Linux the pid cannot change hands in between."""
    if not hasattr(os, "pidfd_open"):
        return _terminate_without_pidfd(pid, started_at, signal_number)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(pid, started_at):
            return False
        signal.pidfd_send_signal(process, signal_number)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True


def _terminate_without_pidfd(pid: int, started_at: float, signal_number: int) -> bool:
    try:
        if is_alive(pid, started_at):
            os.kill(pid, signal_number)
            return True
    except ProcessLookupError:
        pass
    return False


def _started_at_without_proc(pid: int) -> float | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None
