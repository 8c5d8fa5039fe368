"""Many small evaluations through `request_policy_eval`: how many in a second, what the asking process weighs, and how
long a look at the results takes afterwards.

    python benchmarks/remote_evaluation.py
    python benchmarks/remote_evaluation.py --checkpoints 4 --episodes 2 --out /tmp/bench    # a small try

A run is given that many checkpoints of a tiny network; each is judged in five suites of CartPole on a Ray of this
machine. Ray's start is in the time. Listings are of a process that has read nothing before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
SUITE_STEPS = (10, 15, 20, 25, 30)  # the time limits that tell the suites apart
MEGABYTE = 1 << 20
LISTINGS = {
    "the run's evaluations": """
from palaestra.evaluation.summary import read_batches
from palaestra.runs.store import RunStore
directory = RunStore(Path(sys.argv[1])).resolve("many")
look = lambda: len(read_batches(directory))
""",
    "the run's checkpoints with their scores": """
from palaestra.checkpoints.selection import survey
from palaestra.runs.store import RunStore
directory = RunStore(Path(sys.argv[1])).resolve("many").checkpoints
look = lambda: len(survey(directory).checkpoints)
""",
}
CLOCKED = """
import sys, time
from pathlib import Path
{prepare}
began = time.perf_counter()
found = look()
print(found, time.perf_counter() - began)
"""


def make_run(root: Path, checkpoints: int) -> None:
    """One training for the first checkpoint; the others are its policy with other weights."""
    import torch

    from palaestra.api import train
    from palaestra.checkpoints.loading import load_policy
    from palaestra.checkpoints.manager import CheckpointManager

    outcome = train("cartpole", run="many", runs_root=root, total_steps=1)
    manager = CheckpointManager(outcome.directory)
    loaded = load_policy("many:latest", root)
    first = loaded.checkpoint
    for number in range(1, checkpoints):
        with torch.no_grad():
            for weight in loaded.policy.parameters():
                weight.add_(0.01 * torch.randn_like(weight))
        step = first.agent_step + number
        manager.save(loaded.policy, replace(first, epoch=first.epoch + number, agent_step=step, files={}))


def make_suites(folder: Path, episodes: int) -> list[str]:
    files = []
    for steps in SUITE_STEPS:
        file = folder / f"limit_{steps}.yaml"
        simulations = {"short": {"category": "speed", "env": {"max_episode_steps": steps}}}
        file.write_text(json.dumps({"episodes": episodes, "simulations": simulations}))
        files.append(str(file))
    return files


class Watch(threading.Thread):
    """What this process and its children (the one that speaks with Ray, Ray itself) hold in memory, at most."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.own, self.driver = 0, 0
        self._over = threading.Event()

    def run(self) -> None:
        me = psutil.Process()
        while not self._over.wait(0.5):
            self.own = max(self.own, me.memory_info().rss)
            for child in me.children():
                try:
                    if any("palaestra.cluster.evaluation" in word for word in child.cmdline()):
                        self.driver = max(self.driver, child.memory_info().rss)
                except psutil.Error:
                    continue

    def end(self) -> None:
        self._over.set()
        self.join()


def measure(checkpoints: int, episodes: int) -> dict[str, Any]:
    import palaestra

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        make_run(root, checkpoints)
        suites = make_suites(Path(folder), episodes)
        palaestra.request_policy_eval("many:latest", suites=suites, dry_run=True, runs_root=root)
        before, load = psutil.Process().memory_info().rss, os.getloadavg()[0]
        watch = Watch()
        watch.start()
        began = time.perf_counter()
        orders = palaestra.request_policy_eval("many:all", suites=suites, runs_root=root)
        seconds = time.perf_counter() - began
        watch.end()
        done = sum(order.status == "done" for order in orders)
        summary = root / "by-name" / "many" / "eval_summary.json"
        return {
            "checkpoints": checkpoints,
            "evaluations": len(orders),
            "done": done,
            "episodes": sum(order.episodes for order in orders),
            "retries": sum(order.retries for order in orders),
            "seconds": seconds,
            "evaluations_per_second": done / seconds,
            "memory_before_mb": before / MEGABYTE,
            "memory_after_mb": psutil.Process().memory_info().rss / MEGABYTE,
            "memory_most_mb": watch.own / MEGABYTE,
            "driver_most_mb": watch.driver / MEGABYTE,
            "summary_mb": summary.stat().st_size / MEGABYTE,
            "listing_ms": {what: listing_ms(root, code) for what, code in LISTINGS.items()},
            "cores": len(os.sched_getaffinity(0)),
            "load_before": load,
        }


def listing_ms(root: Path, prepare: str) -> float:
    """The best of three fresh processes, imports not counted."""
    code = CLOCKED.format(prepare=prepare)
    words = [sys.executable, "-c", code, str(root)]
    outputs = [subprocess.run(words, capture_output=True, text=True, check=True).stdout for _ in range(3)]
    return min(float(output.split()[1]) for output in outputs) * 1000


def page(result: dict[str, Any]) -> str:
    listings = "\n".join(f"| {what} | {ms:.0f} ms |" for what, ms in result["listing_ms"].items())
    memory = ", ".join(f"{result[f'memory_{when}_mb']:.0f}" for when in ("before", "most", "after"))
    return f"""# Many evaluations at once on Ray

`python benchmarks/remote_evaluation.py`: {result["checkpoints"]} checkpoints of a tiny network, each judged in
{len(SUITE_STEPS)} suites of CartPole, queued with one call of `palaestra.request_policy_eval`, on a Ray of this
machine ({result["cores"]} cores, load before it began {result["load_before"]:.1f}: where that is not near 0, others
worked on the machine too, and an idle one is faster).

| | |
|---|---|
| evaluations asked for, and done | {result["evaluations"]}, {result["done"]} |
| episodes; shares played again | {result["episodes"]}; {result["retries"]} |
| seconds, Ray's start and all writing included | {result["seconds"]:.1f} |
| evaluations a second | {result["evaluations_per_second"]:.1f} |
| memory of the asking process before, at most, after | {memory} MB |
| memory of the process that speaks with Ray, at most | {result["driver_most_mb"]:.0f} MB |
| size of the run's `eval_summary.json` | {result["summary_mb"]:.2f} MB |

How long a fresh process takes to list, afterwards:

| | |
|---|---|
{listings}

Evaluations are read from one JSON file. Checkpoints are read from their sidecars, a YAML file each, and that is what
takes the time: a profile of 60 gave 12 ms of processor time each, of which 99 % were YAML, and 0.2 ms each when the
same process looked again.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    arguments = parser.parse_args()
    result = measure(arguments.checkpoints, arguments.episodes)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "remote-evaluation.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.out / "remote-evaluation.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
