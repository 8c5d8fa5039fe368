"""What everybody did when a soak ended early: without it a fault that nobody can repeat stays a riddle."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from palaestra.runs.directory import RunDirectory
    from palaestra.testing.soak_house import House

LINES = 12  # of each file, the last ones
BYTES = 8192  # that are read for them


def evidence(house: House) -> dict[str, Any]:
    """The ends of what was written, and where every process stood."""
    runs = {name: _of_run(house, name) for name in house.ids}
    return {"soak.log": last_lines(house.root / "soak.log"), "daemon": _stands(house.daemon.pid), **runs}


def _of_run(house: House, name: str) -> dict[str, Any]:
    directory = house.directory(name)
    files = {path.name: last_lines(path) for path in _told_in(directory)}
    return {**files, "processes": [_stands(member.pid) for member in house.members(name)]}


def _told_in(directory: RunDirectory) -> tuple[Path, ...]:
    return directory.status_file, directory.keeper_file, directory.journal_file, directory.log_file()


def last_lines(path: Path) -> list[str]:
    """Empty where there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - BYTES))
            return file.read().decode(errors="replace").splitlines()[-LINES:]
    except OSError:
        return []


def _stands(pid: int) -> dict[str, Any]:
    """What it is, and what each of its threads waits for in the kernel; empty when it is gone."""
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        threads = [
            _thread(task) for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
        ]
        with process.oneshot():
            return {
                "pid": pid,
                "words": " ".join(process.cmdline())[:300],
                "status": process.status(),
                "cpu_seconds": round(sum(process.cpu_times()[:2]), 2),
                "age_seconds": round(time.time() - process.create_time(), 1),
                "threads": threads,
            }
    return {}


def _thread(task: Path) -> str:
    return " ".join((task / name).read_text(errors="replace").strip() for name in ("comm", "wchan"))
