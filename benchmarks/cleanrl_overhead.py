"""What the launcher costs a script: alone; under the launcher with nobody watching; with one viewer of eight tiles.

    python benchmarks/cleanrl_overhead.py
    python benchmarks/cleanrl_overhead.py --rounds 1 --steps 2048 --out /tmp/bench    # a small try

A PPO script in CleanRL's manner (tests/apps/cleanrl/scripts/ppo.py, made to fit today's Gymnasium), eight CartPoles,
one thread. Each side is a process of its own, taken in turns; the script itself tells how long its loop took, by the
clock and in processor time, without what it took to start. One viewer, in this process, wants 15 frames/s a tile.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from live_view import slower

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "apps" / "cleanrl" / "scripts" / "ppo.py"
SIDES = ("alone", "nobody watches", "watched")
ENVS, FRAMES_PER_SECOND = 8, 15.0
TYRO = "import json, os\ndef cli(kind):\n    return kind(**json.loads(os.environ['BENCH_ARGS']))\n"
TOLD = re.compile(r"LOOP ([\d.]+) ([\d.]+)")


def modern(folder: Path) -> Path:
    """The script without need of any adaptation, and telling its own times."""
    text = SCRIPT.read_text()
    text = text.replace("    envs = vector(", "    envs = gym.vector.SyncVectorEnv(").replace(
        "for i in range(args.num_envs)])", "for i in range(args.num_envs)], autoreset_mode=SAME_STEP)"
    )
    text = text.replace("import numpy", "SAME_STEP = gym.vector.AutoresetMode.SAME_STEP\nimport numpy", 1)
    text = text.replace('"final_info" in infos', "False")
    text = text.replace("start_time = time.time()", "start_time = time.time()\n    cpu = time.process_time()", 1)
    text += '    print("LOOP", time.time() - start_time, time.process_time() - cpu, flush=True)\n'
    script = folder / "ppo.py"
    script.write_text(text)
    (folder / "alone").mkdir()
    (folder / "alone" / "tyro.py").write_text(TYRO)
    return script


def settings(steps: int) -> dict[str, Any]:
    return {"num_envs": ENVS, "num_steps": 128, "total_timesteps": steps, "update_epochs": 4}


def times_of(command: list[str], **more: Any) -> dict[str, float]:
    more["env"] = {**os.environ, "OMP_NUM_THREADS": "1", **more.get("env", {})}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    found = TOLD.search(done.stdout)
    assert found, done.stdout
    return {"seconds": float(found[1]), "processor_seconds": float(found[2])}


def measure(side: str, script: Path, steps: int) -> dict[str, float]:
    if side == "alone":
        folder = script.parent / "alone"
        told = {"PYTHONPATH": str(folder), "BENCH_ARGS": json.dumps(settings(steps))}
        return times_of([sys.executable, str(script)], cwd=folder, env=told)
    from palaestra.apps.cleanrl.kind import KIND
    from palaestra.contracts.run import RunRequest
    from palaestra.contracts.worker_kind import Resources
    from palaestra.runs.store import RunStore

    store = RunStore(script.parent / "runs")
    request = RunRequest("cleanrl", "", {"script": str(script), **settings(steps)})
    prepared = KIND.prepare(request, Resources(1), store.root)
    directory = store.create(prepared.request, prepared.config, total_steps=prepared.total_steps)
    if side == "nobody watches":
        return times_of(KIND.command(directory.path))
    with one_viewer(directory.id) as seen:
        found = times_of(KIND.command(directory.path))
    return {**found, "pictures": float(sum(seen))}


@contextmanager
def one_viewer(run_id: str) -> Iterator[list[int]]:
    from palaestra.frames.hub import RENEW_SECONDS, Hub
    from palaestra.frames.viewer import Viewer, Wish
    from palaestra.runs.processes import is_alive

    is_over, seen = threading.Event(), []

    def look() -> None:
        hub, viewer = Hub(is_alive), Viewer(Wish(FRAMES_PER_SECOND))
        watch = hub.join(run_id, "train", viewer)
        renewed_at = 0.0
        while not is_over.is_set():
            if time.monotonic() - renewed_at > RENEW_SECONDS:
                hub.renew(renewed_at := time.monotonic())
            if select.select([hub], [], [], 0.05)[0]:
                hub.on_bell()
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


def page(result: dict[str, Any]) -> str:
    sides, steps = result["sides"], result["steps"]

    def row(side: str) -> str:
        cells = [f"{steps / median(one['seconds'] for one in sides[side]):,.0f}"]
        for what in ("seconds", "processor_seconds"):
            middle, low, high = slower(sides[side], sides["alone"], what)
            cells.append(f"{middle:+.2%} ({low:+.2%} to {high:+.2%})" if side != "alone" else "")
        return f"| {side} | {' | '.join(cells)} |"

    pictures = sum(one["pictures"] for one in sides["watched"]) / sum(one["seconds"] for one in sides["watched"])
    return "\n".join(
        [
            "# What the launcher costs a script",
            "",
            f"Written by `python benchmarks/cleanrl_overhead.py`: {result['rounds']} rounds, processes in turns;",
            "means of the ratios within each round (the outermost tenths pulled in), with their 95 % intervals.",
            (
                f"{result['cores']} cores, load before {result['load_before']:.2f}. PPO on CartPole-v1, {ENVS} "
                f"environments, {steps:,} steps; one viewer at {FRAMES_PER_SECOND:g} frames/s a tile."
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
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=102_400, help="of each process")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    result = {"rounds": asked.rounds, "steps": asked.steps, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    sides: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        script = modern(Path(folder))
        for number in range(asked.rounds):
            for side in SIDES[number % 3 :] + SIDES[: number % 3]:  # nobody always comes first
                sides[side].append(measure(side, script, asked.steps))
    result["sides"] = sides
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "cleanrl-overhead.json").write_text(json.dumps(result, indent=1) + "\n")
    (asked.out / "cleanrl-overhead.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
