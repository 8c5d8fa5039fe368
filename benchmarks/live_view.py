"""What the live view costs a training: switched off; with nobody watching; drawn for nobody; with many viewers.

    python benchmarks/live_view.py
    python benchmarks/live_view.py --rounds 2 --iterations 4 --out /tmp/bench    # a small try

CartPole in eight environments. All sides are stretches of one and the same training, taken in turns: two trainings of
the same settings differ by more on most machines than what is looked for here. Viewers sit in one other process, as
those of a server do: each takes every tile as a JPEG and acknowledges it. Drawn for nobody: pictures are asked for and
nobody takes them, which tells what drawing costs from what a busy neighbour on the other core costs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import select
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SIDES = ("off", "nobody watches", "drawn for nobody", "watched")
ASKED = {"drawn for nobody": "ask", "watched": "watch"}  # of the viewers, by side
VIEWERS, FRAMES_PER_SECOND = 16, 15.0
RUN = "BENCH"


def watch_when_told(told: Any) -> None:
    """A server's loop around a hub: "watch", "ask" (without taking), "leave", and "enough": it tells what was seen."""
    from palaestra.frames.hub import RENEW_SECONDS, Hub
    from palaestra.frames.viewer import Viewer, Wish
    from palaestra.runs.processes import is_alive

    hub, watch, viewers, takes = Hub(is_alive), None, [], False
    ages, sent_bytes, encoded, renewed_at = [], 0, 0, 0.0
    while (word := told.recv() if told.poll((0.0 if takes else 0.1) if watch else None) else "") != "enough":
        if word in ("ask", "watch"):
            takes = word == "watch"
            viewers = [Viewer(Wish(FRAMES_PER_SECOND)) for _ in range(VIEWERS)]
            for viewer in viewers:
                watch = hub.join(RUN, "train", viewer)
            renewed_at = 0.0
        if word == "leave":
            encoded += watch.encoded
            for viewer in viewers:
                hub.leave(watch, viewer)
            watch = None
            continue
        if time.monotonic() - renewed_at > RENEW_SECONDS:
            hub.renew(renewed_at := time.monotonic())
        if not takes:
            continue
        if select.select([hub], [], [], 0.05)[0]:
            hub.on_bell()
        for viewer in viewers:
            while (message := watch.take(viewer, time.monotonic())) is not None:
                sent_bytes += len(message)
                ages.append(time.time() - captured_at(message))
                viewer.acknowledge()
    told.send({"sent": len(ages), "encoded": encoded, "bytes": sent_bytes, "ages": ages[::10]})
    hub.close()


def captured_at(message: bytes) -> float:
    from palaestra.frames.encode import MESSAGE

    return float(MESSAGE.unpack_from(message)[9])


@contextmanager
def viewers_elsewhere() -> Iterator[Any]:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=watch_when_told, args=(theirs,))
    process.start()
    try:
        yield ours
    finally:
        process.join(timeout=10)
        process.kill()


def measure_all(rounds: int, iterations: int) -> dict[str, Any]:
    """Of each side the stretches of one training, in the order in which they were taken."""
    import torch

    from palaestra.config.request import resolve_training
    from palaestra.training.state import new_training_state
    from palaestra.training.trainer import train

    config = resolve_training("cartpole", {"total_steps": 10**9})
    torch.set_num_threads(config.torch_threads)
    state = new_training_state(config)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder, own_lanes(folder), viewers_elsewhere() as viewers:
        with published(state) as (writer, sides):
            training = train(state)
            for number in range(-1, rounds):  # the first round is for warming up
                turn = number % len(SIDES)
                for side in SIDES[turn:] + SIDES[:turn]:  # nobody always comes first
                    state.envs = sides[side]
                    with watching(viewers, writer, ASKED.get(side)):
                        before = seconds_drawing()
                        stretch = timed(training, iterations)
                        stretch["drawing"] = seconds_drawing() - before
                    if number >= 0:
                        found[side].append(stretch)
            state.envs = sides["off"]
        viewers.send("enough")
        seen = viewers.recv()
    steps = iterations * state.config.ppo.env_count * state.config.ppo.horizon
    return {"steps": steps, "sides": found, "seen": seen}


@contextmanager
def published(state: Any) -> Iterator[Any]:
    """As a run does it: see palaestra.workers.live."""
    from palaestra.envs.publish import PublishedEnvs, Publisher
    from palaestra.envs.scene import scene_of
    from palaestra.frames.lane import LaneOwner
    from palaestra.frames.place import lane_path
    from palaestra.frames.writer import FrameWriter
    from palaestra.runs.processes import process_started_at

    live, inner = state.config.live, state.envs
    scene = scene_of(inner)
    with ExitStack() as stack:
        capacity = 3 * live.largest_side**2
        owner = LaneOwner(lane_path(RUN), min(scene.tiles, live.tiles), capacity, process_started_at(os.getpid()))
        stack.enter_context(owner)
        writer = stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
        publisher = stack.enter_context(closing(Publisher(writer, live.budget, live.largest_side)))
        shown = PublishedEnvs(inner, scene, publisher, 0, inner.count)
        yield writer, {side: inner if side == "off" else shown for side in SIDES}


@contextmanager
def watching(viewers: Any, writer: Any, asked: str | None) -> Iterator[None]:
    """The lane says before and after that it is as it should be. Every side rests as long as a lease takes to end: a
    processor that has rested is quicker for a while."""
    from palaestra.frames.demand import LEASE_SECONDS

    rested_at = time.monotonic() + LEASE_SECONDS
    wait_for(lambda: time.monotonic() > rested_at and not writer.is_wanted(time.monotonic()))
    if asked:
        viewers.send(asked)
        wait_for(lambda: writer.is_wanted(time.monotonic()))
    yield
    if asked:
        viewers.send("leave")


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the viewers do not answer"
        time.sleep(0.01)


def seconds_drawing() -> float:
    """What the run itself says in its lane that pictures have cost it so far."""
    from palaestra.frames.place import lane_path
    from palaestra.frames.reader import FrameReader

    with closing(FrameReader(lane_path(RUN))) as reader:
        beat = reader.beat()
        return 0.0 if beat is None else float(beat.seconds_spent)


def timed(training: Iterator[Any], iterations: int) -> dict[str, float]:
    began, processor = time.perf_counter(), time.process_time()
    for _ in islice(training, iterations):
        pass
    return {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - processor}


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


def slower(side: list[dict[str, float]], off: list[dict[str, float]], what: str) -> tuple[float, float, float]:
    """Each stretch beside that of its own round: the median, and between which two of the ratios it lies in 95 % of
    such measurements (the sign test's interval: no assumption about how they are spread)."""
    ratios = sorted(one[what] / other[what] - 1 for one, other in zip(side, off, strict=True))
    reach = round(0.98 * len(ratios) ** 0.5)
    middle = len(ratios) // 2
    return median(ratios), ratios[max(middle - reach, 0)], ratios[min(middle + reach, len(ratios) - 1)]


def page(result: dict[str, Any]) -> str:
    sides, steps, seen = result["sides"], result["steps"], result["seen"]

    def row(side: str) -> str:
        cells = [f"{steps / median(one['seconds'] for one in sides[side]):,.0f}"]
        for what in ("seconds", "processor_seconds"):
            middle, low, high = slower(sides[side], sides["off"], what)
            cells.append(f"{middle:+.2%} ({low:+.2%} to {high:+.2%})" if side != "off" else "")
        return f"| {side} | {' | '.join(cells)} |"

    own = median(one["drawing"] / one["seconds"] for one in sides["watched"])
    ages = sorted(seen["ages"]) or [0.0]
    seconds = sum(one["seconds"] for one in sides["watched"])
    return "\n".join(
        [
            "# What watching costs",
            "",
            f"Written by `python benchmarks/live_view.py`: {result['rounds']} rounds, all in one training, in turns;",
            "medians of the ratios within each round, with their 95 % intervals.",
            (
                f"{result['cores']} cores, load before {result['load_before']:.2f}. CartPole-v1, 8 environments, "
                f"{steps:,} steps a stretch; {VIEWERS} viewers at {FRAMES_PER_SECOND:g} frames/s a tile, elsewhere."
            ),
            "",
            "| live view | steps/s | slower than off | processor time more than off |",
            "|---|---|---|---|",
            *(row(side) for side in SIDES),
            "",
            (
                "By its own account, which counts every moment that it draws, copies and rings, the watched run spent "
                f"{own:.2%} of its time on pictures. Whoever begins to watch gets every tile at once; after a while "
                "the budget (`live.budget`, 1.5 %) holds."
            ),
            (
                f"Viewers got {seen['sent'] / seconds:,.0f} pictures/s in all from {seen['encoded'] / seconds:.1f} "
                f"encodings/s, {seen['bytes'] / seconds / 1e6:.2f} MB/s, {ages[len(ages) // 2] * 1e3:.1f} ms old "
                f"(median; 95 %: {ages[len(ages) * 95 // 100] * 1e3:.1f} ms)."
            ),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--iterations", type=int, default=240, help="of each stretch; one is 256 steps")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    result = {"rounds": asked.rounds, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    result |= measure_all(asked.rounds, asked.iterations)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "live-view.json").write_text(json.dumps(result, indent=1) + "\n")
    (asked.out / "live-view.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
