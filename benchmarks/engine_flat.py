"""Does a long training stay as fast and as small as it began? Cost per step and memory, from 1e5 to 1e7 steps.

    python benchmarks/engine_flat.py                       # two or three minutes on a quiet machine
    python benchmarks/engine_flat.py --steps 300_000       # a small try
    python benchmarks/engine_flat.py --steps 10_000_000_000 --minutes 60
    python benchmarks/engine_flat.py --steps 10_000_000_000 --minutes 60 --settings    # CartPole's own recipe

`palaestra train` as a user starts it, in a process of its own, with checkpoints, metrics.db, TensorBoard and console;
CartPole with CleanRL's settings. From outside the process's CPU time and resident memory are read whenever its
`status.json` says a new step. Time is CPU time, all threads: a neighbour that is busy changes it little.
A second table shows memory over time, by tenths of the run: of what is resident, `own` is not a file's.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTINGS = (
    "ppo.env_count=4",
    "ppo.horizon=128",
    "ppo.minibatch_size=128",
    "ppo.update_epochs=4",
)
POLL_SECONDS = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
CTRL_C = 130
FIRST = 100_000  # steps; what was before is start-up


@dataclass(frozen=True)
class Look:
    step: int
    cpu_seconds: float
    megabytes: float  # resident
    own_megabytes: float  # of these, what is not of files or shared


@dataclass(frozen=True)
class Stretch:
    begin: int  # steps
    end: int
    cpu_microseconds_per_step: float
    megabytes: float  # at its end


@dataclass(frozen=True)
class Tenth:
    """Of all looks, in their order, about one a second."""

    begin: int  # steps
    end: int
    cpu_microseconds_per_step: float
    megabytes: float  # median
    own_megabytes: float  # median


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which it is stopped, as by Ctrl-C")
    parser.add_argument("--engine", default="native")
    parser.add_argument("--settings", nargs="*", default=SETTINGS, help="of the training, instead of CleanRL's")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        training = ("cartpole", f"engine={asked.engine}", f"total_steps={asked.steps}", *asked.settings)
        looks = watch(Path(folder), training, 60 * asked.minutes)
    stretches, tenths = stretches_of(looks, marks_up_to(asked.steps)), tenths_of(looks)
    print(table(stretches), tenths_table(tenths), sep="\n\n")
    if asked.out:
        told = {"training": training, "stretches": [*map(asdict, stretches)], "tenths": [*map(asdict, tenths)]}
        asked.out.write_text(json.dumps(told, indent=1))
    return 0


def watch(folder: Path, training: Sequence[str], seconds: float) -> list[Look]:
    """One look per step that its status tells, about one a second."""
    words = [sys.executable, "-m", "palaestra", "train", "run=flat", *training]
    looks: list[Look] = []
    over_at = time.monotonic() + seconds
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None:
            if time.monotonic() > over_at:
                child.send_signal(signal.SIGINT)
                over_at = float("inf")
            step = told_step(folder)
            if step > (looks[-1].step if looks else 0) and (look := look_at(child.pid, step)) is not None:
                looks.append(look)
            time.sleep(POLL_SECONDS)
    if child.returncode not in {0, CTRL_C}:
        raise SystemExit(f"The training ended with exit code {child.returncode}.")
    return looks


def told_step(folder: Path) -> int:
    directory = RunStore(folder / "runs").named("flat")
    return 0 if directory is None else read_record(directory).agent_step


def look_at(pid: int, step: int) -> Look | None:
    """None when the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])  # pages
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return None
    cpu_seconds = (int(fields[11]) + int(fields[12])) / TICKS  # utime, stime
    page = os.sysconf("SC_PAGE_SIZE") / 2**20
    return Look(step, cpu_seconds, resident * page, (resident - shared) * page)


def marks_up_to(steps: int) -> list[int]:
    """1e5, 3e5, 1e6, 3e6, …"""
    marks, mark = [], FIRST
    while mark < steps:
        marks.append(mark)
        mark = mark * 3 if str(mark)[0] == "1" else mark // 3 * 10
    return [*marks, steps]


def stretches_of(looks: list[Look], marks: list[int]) -> list[Stretch]:
    """Between the looks that came first after each mark; stretches in which nobody looked twice are left out."""
    at = [next((look for look in looks if look.step >= mark), looks[-1]) for mark in marks]
    return [
        Stretch(
            begin.step, end.step, 1e6 * (end.cpu_seconds - begin.cpu_seconds) / (end.step - begin.step), end.megabytes
        )
        for begin, end in pairwise(at)
        if end.step > begin.step
    ]


def tenths_of(looks: list[Look]) -> list[Tenth]:
    """Of what came after the start; none where that is less than two looks a tenth."""
    later = [look for look in looks if look.step >= FIRST]
    if len(later) < 20:
        return []
    bounds = [len(later) * tenth // 10 for tenth in range(11)]
    return [_tenth(later[begin:end]) for begin, end in pairwise(bounds)]


def _tenth(looks: list[Look]) -> Tenth:
    first, last = looks[0], looks[-1]
    return Tenth(
        first.step,
        last.step,
        1e6 * (last.cpu_seconds - first.cpu_seconds) / (last.step - first.step),
        median(look.megabytes for look in looks),
        median(look.own_megabytes for look in looks),
    )


def table(stretches: list[Stretch]) -> str:
    lines = ["| steps from | to | CPU µs a step | resident MB at the end |", "|---|---|---|---|"]
    lines += [
        f"| {one.begin:,} | {one.end:,} | {one.cpu_microseconds_per_step:.2f} | {one.megabytes:.0f} |"
        for one in stretches
    ]
    return "\n".join(lines)


def tenths_table(tenths: list[Tenth]) -> str:
    lines = ["| tenth | steps from | to | CPU µs a step | resident MB, median | own |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {number} | {one.begin:,} | {one.end:,} | {one.cpu_microseconds_per_step:.2f} | {one.megabytes:.1f} | "
        f"{one.own_megabytes:.1f} |"
        for number, one in enumerate(tenths, start=1)
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
