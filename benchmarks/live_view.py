"""What the live view costs a training: switched off; on with nobody watching; on with many viewers.

    python benchmarks/live_view.py
    python benchmarks/live_view.py --rounds 1 --steps 20000 --out /tmp/bench    # a small try

CartPole in eight environments. Sides are taken in turns. Viewers sit in one other process, as those of a server do:
each takes every tile as a JPEG and acknowledges it. Of a training the time counts from its first iteration to its last.
The training's own processor time stands beside it: on two cores viewers take from the machine, but not from the run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import select
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SIDES: dict[str, tuple[bool, int]] = {"off": (False, 0), "nobody watches": (True, 0), "watched": (True, 16)}
FRAMES_PER_SECOND = 15.0


def watch_latest(viewer_count: int, told: Any) -> None:
    """A server's loop around a hub, until `told` says that it is enough; then it tells what was seen."""
    from palaestra.frames.hub import RENEW_SECONDS, Hub
    from palaestra.frames.place import every_lane
    from palaestra.frames.viewer import Viewer, Wish
    from palaestra.runs.processes import is_alive

    hub, viewers = Hub(is_alive), [Viewer(Wish(FRAMES_PER_SECOND)) for _ in range(viewer_count)]
    watch, ages, sent_bytes, renewed_at, cost = None, [], 0, 0.0, 0.0
    while not told.poll():
        if watch is None:
            found = every_lane()
            if found:
                run_id, _, role = found[0].name.removeprefix("palaestra-").removesuffix(".lane").partition("-")
                for viewer in viewers:
                    watch = hub.join(run_id, role, viewer)
            time.sleep(0.01)
            continue
        if time.monotonic() - renewed_at > RENEW_SECONDS:
            hub.renew(renewed_at := time.monotonic())
            cost = watch.status.beat.cost if watch.status.beat else cost
        if select.select([hub], [], [], 0.05)[0]:
            hub.on_bell()
        for viewer in viewers:
            while (message := watch.take(viewer, time.monotonic())) is not None:
                sent_bytes += len(message)
                ages.append(time.time() - captured_at(message))
                viewer.acknowledge()
    encoded = watch.encoded if watch else 0
    told.send({"sent": len(ages), "encoded": encoded, "bytes": sent_bytes, "ages": ages[::10], "cost": cost})
    hub.close()


def captured_at(message: bytes) -> float:
    from palaestra.frames.encode import MESSAGE

    return float(MESSAGE.unpack_from(message)[9])


def measure(root: Path, name: str, side: str, steps: int) -> dict[str, Any]:
    from palaestra.api import start_training
    from palaestra.runs.metrics import MetricsReader

    enabled, viewers = SIDES[side]
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    watcher = None
    if viewers:
        watcher = multiprocessing.get_context("spawn").Process(target=watch_latest, args=(viewers, theirs))
        watcher.start()
    settings = {"total_steps": steps, "live": {"enabled": enabled}, "checkpoints": {"save_interval": 0}}
    processor = time.process_time()
    outcome = start_training("cartpole", settings, run=name, quiet=True, runs_root=root)
    processor = time.process_time() - processor
    seen: dict[str, Any] = {}
    if watcher is not None:
        ours.send("enough")
        seen = ours.recv()
        watcher.join()
    with MetricsReader(outcome.directory.metrics_file) as metrics:
        times = [point.value for point in metrics.steps()]
    return {"seconds": max(times) - min(times), "processor_seconds": processor, **seen}


def measure_all(rounds: int, steps: int) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder, own_lanes(folder):
        measure(Path(folder), "warm-up", "off", 4096)
        for number in range(rounds):
            sides = list(SIDES)
            for side in sides[number % 3 :] + sides[: number % 3]:  # nobody always comes first
                found[side].append(measure(Path(folder), f"{side.replace(' ', '-')}-{number}", side, steps))
    return found


@contextmanager
def own_lanes(otherwise: str) -> Iterator[None]:
    """A place of our own for lanes, told to our children too. What was told before is told again afterwards: whoever
    is started later would look for lanes in a folder that is gone."""
    lanes = Path(tempfile.mkdtemp(dir=shared_memory(otherwise)))
    with patch.dict(os.environ, {"PALAESTRA_LANES_DIR": str(lanes)}):
        yield
    lanes.rmdir()  # fails when a lane was left behind


def shared_memory(otherwise: str) -> str:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else otherwise


def page(result: dict[str, Any]) -> str:
    sides, steps = result["sides"], result["steps"]

    def rate(side: str) -> float:
        return median(steps / one["seconds"] for one in sides[side])

    def slower(side: str, what: str) -> float:
        pairs = zip(sides[side], sides["off"], strict=True)
        return median(one[what] / off[what] - 1 for one, off in pairs)

    watched = sides["watched"]
    ages = sorted(age for one in watched for age in one["ages"]) or [0.0]
    seconds = sum(one["seconds"] for one in watched)
    return "\n".join(
        [
            "# What watching costs",
            "",
            f"Written by `python benchmarks/live_view.py`: {result['rounds']} rounds, taken in turns; medians.",
            (
                f"{result['cores']} cores, load before {result['load_before']:.2f}. CartPole-v1, 8 environments, "
                f"{steps:,} steps; 16 viewers at {FRAMES_PER_SECOND:g} frames/s a tile in another process."
            ),
            "",
            "| live view | steps/s | slower than off | processor time more than off |",
            "|---|---|---|---|",
            f"| off | {rate('off'):,.0f} | | |",
            *(
                f"| {side} | {rate(side):,.0f} | {slower(side, 'seconds'):+.2%} | "
                f"{slower(side, 'processor_seconds'):+.2%} |"
                for side in list(SIDES)[1:]
            ),
            "",
            (
                f"Watched, the run measured {median(one['cost'] for one in watched):.2%} of its time for pictures. "
                f"Viewers got {sum(one['sent'] for one in watched) / seconds:,.0f} pictures/s in all from "
                f"{sum(one['encoded'] for one in watched) / seconds:.1f} encodings/s, "
                f"{sum(one['bytes'] for one in watched) / seconds / 1e6:.2f} MB/s, "
                f"{ages[len(ages) // 2] * 1e3:.1f} ms old (median; 95 %: {ages[len(ages) * 95 // 100] * 1e3:.1f} ms)."
            ),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    load_before = os.getloadavg()[0]
    result = {
        "rounds": asked.rounds,
        "steps": asked.steps,
        "cores": os.cpu_count(),
        "load_before": load_before,
        "sides": measure_all(asked.rounds, asked.steps),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "live-view.json").write_text(json.dumps(result, indent=1) + "\n")
    (asked.out / "live-view.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
