"""What the launcher costs a script: alone; under the launcher with nobody watching; with one viewer of eight tiles.

    python benchmarks/cleanrl_overhead.py
    python benchmarks/cleanrl_overhead.py --rounds 1 --turns 4 --out /tmp/bench    # a small try

A PPO script in CleanRL's manner (tests/apps/scripts/scripts/ppo.py, made to fit today's Gymnasium), eight CartPoles,
one thread. Three processes train at once but only one at a time: each waits before every iteration, a seventh of a
second, until it is its turn. On a machine that is shared with strangers a quarter of a minute differs from the next by
a tenth and more, whatever runs, and only neighbours can be compared. The script itself tells what each iteration took,
by the clock and in processor time. One viewer, in this process, wants 15 frames/s a tile.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from live_view import DRAWS, pulled_in

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "apps" / "scripts" / "scripts" / "ppo.py"
SIDES = ("alone", "nobody watches", "watched")
ENVS, HORIZON, FRAMES_PER_SECOND = 8, 128, 15.0
WARMING = 10  # turns before those that count
PATIENCE_SECONDS = 120.0
TYRO = "import json, os\ndef cli(kind):\n    return kind(**json.loads(os.environ['BENCH_ARGS']))\n"
GO, STOP, TOOK = b"g", b"s", struct.Struct("dd")
GATE = """
import struct
may_go, has_gone = (open(os.path.join(os.environ["BENCH_GATE"], name), "r+b", buffering=0) for name in ("go", "done"))
"""
BEGIN = """\
        if may_go.read(1) == b"s":
            break
        began, processor = time.time(), time.process_time()
"""
END = """\
        has_gone.write(struct.pack("dd", time.time() - began, time.process_time() - processor))
"""


def modern(folder: Path) -> Path:
    """The script without need of any adaptation, waiting for its turn and telling what each iteration took."""
    text = SCRIPT.read_text()
    text = text.replace("    envs = vector(", "    envs = gym.vector.SyncVectorEnv(").replace(
        "for i in range(args.num_envs)])", "for i in range(args.num_envs)], autoreset_mode=SAME_STEP)"
    )
    text = text.replace("import numpy", "SAME_STEP = gym.vector.AutoresetMode.SAME_STEP\nimport numpy", 1)
    text = text.replace('"final_info" in infos', "False")
    text = text.replace("\n\n@dataclass", f"\n{GATE}\n\n@dataclass", 1)
    text = text.replace("        rows = []\n", f"{BEGIN}        rows = []\n", 1)
    text = text.replace("    envs.close()\n", f"{END}    envs.close()\n", 1)
    script = folder / "ppo.py"
    script.write_text(text)
    (folder / "stand_ins").mkdir()
    (folder / "stand_ins" / "tyro.py").write_text(TYRO)
    return script


@dataclass(frozen=True)
class Side:
    """One training that takes an iteration when it is told to."""

    process: subprocess.Popen[bytes]
    go: IO[bytes]
    done: IO[bytes]
    printed: Path

    def take_turn(self) -> dict[str, float]:
        self.go.write(GO)
        if not select.select([self.done], [], [], PATIENCE_SECONDS)[0]:
            raise RuntimeError(f"no iteration in {PATIENCE_SECONDS:g} seconds: {self.printed.read_text()}")
        seconds, processor_seconds = TOOK.unpack(self.done.read(TOOK.size))
        return {"seconds": seconds, "processor_seconds": processor_seconds}

    def stop(self) -> None:
        self.go.write(STOP)
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()


@contextmanager
def started(name: str, folder: Path, command: list[str], told: dict[str, str]) -> Iterator[Side]:
    gate = folder / f"gate of {name}"
    gate.mkdir()
    for pipe in ("go", "done"):
        os.mkfifo(gate / pipe)
    printed = gate / "printed.txt"
    with ExitStack() as stack:
        go, done = (stack.enter_context((gate / pipe).open("r+b", buffering=0)) for pipe in ("go", "done"))
        output = stack.enter_context(printed.open("wb"))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "BENCH_GATE": str(gate), **told}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=gate, env=environment)
        side = Side(process, go, done, printed)
        stack.callback(side.stop)
        yield side


@contextmanager
def all_sides(folder: Path) -> Iterator[tuple[dict[str, Side], list[int]]]:
    """The three trainings, and the list that grows with every picture that the viewer gets."""
    script = modern(folder)
    settings = {"num_envs": ENVS, "num_steps": HORIZON, "total_timesteps": 10**9, "update_epochs": 4}
    told = {"PYTHONPATH": str(folder / "stand_ins"), "BENCH_ARGS": json.dumps(settings)}
    with ExitStack() as stack:
        sides = {"alone": stack.enter_context(started("alone", folder, [sys.executable, str(script)], told))}
        for name in SIDES[1:]:
            run_id, command = launched(script, settings)
            if name == "watched":
                seen = stack.enter_context(one_viewer(run_id))
            sides[name] = stack.enter_context(started(name, folder, command, {}))
        yield sides, seen


def launched(script: Path, settings: dict[str, Any]) -> tuple[str, list[str]]:
    """A run of the script: its id, and what starts it. It runs for its share of the time only, and so it may spend only
    that share of what it has for pictures: while it runs, there are as many as in a run that is always watched."""
    from palaestra.apps.scripts.kind import KIND
    from palaestra.apps.scripts.launch import LaunchConfig
    from palaestra.core.run import RunRequest
    from palaestra.core.worker_kind import Resources
    from palaestra.runs.store import RunStore

    store = RunStore(script.parent / "runs")
    share = {"live_budget": LaunchConfig().live_budget / len(SIDES)}
    request = RunRequest("cleanrl", "", {"script": str(script), **share, **settings})
    prepared = KIND.prepare(request, Resources(1), store.root)
    directory = store.create(prepared.request, prepared.config, total_steps=prepared.total_steps)
    return directory.id, KIND.command(directory.path)


def measure_all(rounds: int, turns: int) -> dict[str, Any]:
    """Of each side its iterations, in the order in which they were taken. Each round has processes of its own: how one
    happens to lie in memory makes a per cent of difference, as long as it lives."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    pictures = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, all_sides(Path(folder)) as (sides, seen):
            take_turns(sides, WARMING)
            before = len(seen)
            for side, iterations in take_turns(sides, turns).items():
                found[side] += iterations
            pictures += len(seen) - before
    return {"rounds": rounds, "turns": turns, "steps": ENVS * HORIZON, "sides": found, "pictures": pictures}


def take_turns(sides: dict[str, Side], turns: int) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(turns):
        first = number % len(SIDES)
        for side in SIDES[first:] + SIDES[:first]:  # nobody always comes first
            found[side].append(sides[side].take_turn())
    return found


@contextmanager
def one_viewer(run_id: str) -> Iterator[list[int]]:
    from palaestra.rendering.hub import RENEW_SECONDS, Hub
    from palaestra.rendering.viewer import Viewer, ViewerRequest
    from palaestra.runs.processes import is_alive

    is_over, seen = threading.Event(), []

    def look() -> None:
        hub, viewer = Hub(is_alive), Viewer(ViewerRequest(FRAMES_PER_SECOND))
        watch = hub.join(run_id, "train", viewer)
        renewed_at = 0.0
        while not is_over.is_set():
            if time.monotonic() - renewed_at > RENEW_SECONDS:
                hub.renew(renewed_at := time.monotonic())
            if select.select([hub], [], [], 0.05)[0]:
                hub.on_notification()
            while watch.take(viewer, time.monotonic()) is not None:
                seen.append(1)
                viewer.acknowledge()
        hub.close()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def slower(
    side: list[dict[str, float]], alone: list[dict[str, float]], what: str, rounds: int
) -> tuple[float, float, float]:
    """Each iteration beside that of its own turn, as `live_view.slower` has it; and the 95 % interval by resampling
    whole rounds: how a process happens to lie in memory is the same throughout one, and is most of what they differ by.
    """
    ratios = np.log([one[what] / other[what] for one, other in zip(side, alone, strict=True)])
    each = pulled_in(ratios.reshape(rounds, -1))
    means = np.random.default_rng(0).choice(each, (DRAWS, rounds)).mean(axis=1)
    middle, low, high = np.expm1([each.mean(), *np.quantile(means, [0.025, 0.975])])
    return float(middle), float(low), float(high)


def page(result: dict[str, Any]) -> str:
    sides, steps = result["sides"], result["steps"]

    def row(side: str) -> str:
        cells = [f"{steps / median(one['seconds'] for one in sides[side]):,.0f}"]
        for what in ("seconds", "processor_seconds"):
            middle, low, high = slower(sides[side], sides["alone"], what, result["rounds"])
            cells.append(f"{middle:+.2%} ({low:+.2%} to {high:+.2%})" if side != "alone" else "")
        return f"| {side} | {' | '.join(cells)} |"

    pictures = result["pictures"] / sum(one["seconds"] for one in sides["watched"])
    return "\n".join(
        [
            "# What the launcher costs a script",
            "",
            f"Written by `python benchmarks/cleanrl_overhead.py`: {result['rounds']} times {result['turns']} turns;",
            "means of the ratios within each turn (the outermost tenths of a round pulled in) with 95 % intervals",
            "over rounds.",
            (
                f"{result['cores']} cores, load before {result['load_before']:.2f}. PPO on CartPole-v1, {ENVS} "
                f"environments, {steps:,} steps an iteration; one viewer at {FRAMES_PER_SECOND:g} frames/s a tile."
            ),
            "",
            "| script | steps/s | slower than alone | processor time more than alone |",
            "|---|---|---|---|",
            *(row(side) for side in SIDES),
            "",
            f"The viewer got {pictures:.1f} pictures/s in all.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--turns", type=int, default=30, help="of each round: one iteration of each side")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    result = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0], **measure_all(asked.rounds, asked.turns)}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "cleanrl-overhead.json").write_text(json.dumps(result) + "\n")
    (asked.out / "cleanrl-overhead.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
