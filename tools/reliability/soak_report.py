"""The result of a soak test as a chart, and diagnostics of one that ended early."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palaestra.runs.directory import RunDirectory
    from tools.reliability.soak_services import SoakServices

WIDTH, PANEL, LEFT, TOP, GAP = 720, 120, 56, 30, 34  # pixels
INK, LINE, FAULT, KILLED = "#777", "#3a7bd5", "#ccc", "#d9534f"
PANELS = {"rss_mb": "daemon, MB", "descriptors": "descriptors", "recovered_after": "at work again after, s"}


def draw_curve(found: Mapping[str, Any]) -> str:
    """An SVG of the samples. Thin lines are faults; red ones killed the daemon, after which a new process runs."""
    samples = found["samples"]
    last = max(samples[-1]["second"], 1.0)
    height = TOP + len(PANELS) * (PANEL + GAP)
    title = f"{found['minutes']:g} minutes, {len(samples) - 1} faults, seed {found['seed']}"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
            f' font-size="11" fill="{INK}">'
        ),
        f'<text x="{LEFT}" y="16">{title}</text>',
    ]
    for number, (key, name) in enumerate(PANELS.items()):
        parts += _panel(samples, key, name, last, TOP + number * (PANEL + GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(samples: Sequence[Mapping[str, Any]], key: str, name: str, last: float, top: int) -> list[str]:
    """One chart, with a y axis that starts at 0."""
    points = [(sample["second"], sample[key]) for sample in samples if key in sample]
    most = max([value for _, value in points] or [0.0]) or 1.0
    bottom = top + PANEL

    def across(second: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 10) * second / last, 1)

    places = " ".join(f"{across(second)},{round(bottom - PANEL * value / most, 1)}" for second, value in points)
    faults = [
        f'<path d="M{across(sample["second"])} {top}V{bottom}" stroke="'
        f'{KILLED if sample["fault"] == "kill_daemon" else FAULT}" stroke-width="0.6"/>'
        for sample in samples
        if sample["fault"]
    ]
    return [
        *faults,
        f'<path d="M{LEFT} {top}V{bottom}H{WIDTH - 10}" fill="none" stroke="{INK}" stroke-width="0.8"/>',
        f'<polyline points="{places}" fill="none" stroke="{LINE}" stroke-width="1.5"/>',
        f'<text x="{LEFT - 6}" y="{top + 8}" text-anchor="end">{most:g}</text>',
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{LEFT + 4}" y="{top - 4}">{name}</text>',
        f'<text x="{WIDTH - 10}" y="{bottom + 13}" text-anchor="end">{last / 60:.1f} min</text>',
    ]


LINES = 12  # of each file, the last ones
BYTES = 8192  # that are read for them


def collect_evidence(services: SoakServices) -> dict[str, Any]:
    """The last lines of all logs, and the state of every process."""
    runs = {name: _of_run(services, name) for name in services.ids}
    return {"soak.log": last_lines(services.root / "soak.log"), "daemon": _stands(services.daemon.pid), **runs}


def _of_run(services: SoakServices, name: str) -> dict[str, Any]:
    directory = services.directory(name)
    files = {path.name: last_lines(path) for path in _files_of(directory)}
    return {**files, "processes": [_stands(member.pid) for member in services.members(name)]}


def _files_of(directory: RunDirectory) -> tuple[Path, ...]:
    return directory.status_file, directory.monitor_file, directory.journal_file, directory.log_file()


def last_lines(path: Path) -> list[str]:
    """The last lines of a file; empty if it does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - BYTES))
            return file.read().decode(errors="replace").splitlines()[-LINES:]
    except OSError:
        return []


def _stands(pid: int) -> dict[str, Any]:
    """State of a process, and what each of its threads waits for in the kernel. Empty if it has ended."""
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
