"""What the live view costs a training: switched off; with nobody watching; drawn for nobody; with many viewers.

    python benchmarks/live_view.py
    python benchmarks/live_view.py --turns 4 --out /tmp/bench    # a small try

CartPole in eight environments. All sides are stretches of a fifth of a second of one and the same training, taken in
turns: on a machine that is shared with strangers a quarter of a minute differs from the next by a tenth and more,
whatever runs, and only neighbours can be compared. Viewers sit in one other process, as those of a server do, all the
time: each takes every tile as a JPEG and acknowledges it. Drawn for nobody: pictures are asked for and nobody takes
them, which tells what drawing costs from what a busy neighbour on the other core costs.
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

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SIDES = ("off", "nobody watches", "drawn for nobody", "watched")
VIEWERS, FRAMES_PER_SECOND = 16, 15.0
ITERATIONS = {"torch": 4, "native": 24}  # of 256 steps: a fifth of a second
WARMING = 20  # turns before those that count
SPREAD_FROM, DRAWS = 0.1, 2000  # of all ratios at either end pulled in; resamplings for an interval


def watch_until_told(told: Any) -> None:
    """A server's loop around a hub, until it is told anything; then it tells what was seen."""
    from palaestra.rendering.hub import RENEW_SECONDS, Hub
    from palaestra.rendering.viewer import Viewer, ViewerRequest
    from palaestra.runs.processes import is_alive

    hub, viewers = Hub(is_alive), [Viewer(ViewerRequest(FRAMES_PER_SECOND)) for _ in range(VIEWERS)]
    hub.join("DRAWN_FOR_NOBODY", "train", Viewer(ViewerRequest(FRAMES_PER_SECOND)))
    watch, *_ = [hub.join("WATCHED", "train", viewer) for viewer in viewers]
    ages, sent_bytes, renewed_at = [], 0, 0.0
    while not told.poll():
        if time.monotonic() - renewed_at > RENEW_SECONDS:
            hub.renew(renewed_at := time.monotonic())
        if select.select([hub], [], [], 0.05)[0]:
            hub.on_notification()
        for viewer in viewers:
            while (message := watch.take(viewer, time.monotonic())) is not None:
                sent_bytes += len(message)
                ages.append(time.time() - captured_at(message))
                viewer.acknowledge()
    told.send({"sent": len(ages), "encoded": watch.encoded, "bytes": sent_bytes, "ages": ages[::10]})
    hub.close()


def captured_at(message: bytes) -> float:
    from palaestra.rendering.images import MESSAGE

    return float(MESSAGE.unpack_from(message)[9])


@contextmanager
def viewers_elsewhere() -> Iterator[Any]:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=watch_until_told, args=(theirs,))
    process.start()
    try:
        yield ours
    finally:
        process.join(timeout=10)
        process.kill()


def measure_all(turns: int, iterations: int, engine: str) -> dict[str, Any]:
    """Of each side the stretches of one training, in the order in which they were taken."""
    import torch

    from palaestra.config.resolve import resolve_training
    from palaestra.training.state import new_training_state
    from palaestra.training.trainer import train

    config = resolve_training("cartpole", {"total_steps": 10**9, "engine": engine})
    torch.set_num_threads(config.torch_threads)
    state = new_training_state(config)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder, own_lanes(folder), ExitStack() as stack:
        envs = {"off": state.envs} | {side: stack.enter_context(published(state, side)) for side in SIDES[1:]}
        viewers = stack.enter_context(viewers_elsewhere())
        wait_for(lambda: is_wanted("WATCHED") and is_wanted("DRAWN_FOR_NOBODY"))
        training = train(state)
        for number in range(-WARMING, turns):
            if number == 0:
                before = seconds_drawing("WATCHED")
            first = number % len(SIDES)
            for side in SIDES[first:] + SIDES[:first]:  # nobody always comes first
                state.envs = envs[side]
                stretch = timed(training, iterations)
                if number >= 0:
                    found[side].append(stretch)
        drawing = seconds_drawing("WATCHED") - before
        state.envs = envs["off"]
        viewers.send("enough")
        seen = viewers.recv()
    steps = iterations * state.config.ppo.env_count * state.config.ppo.horizon
    return {"steps": steps, "sides": found, "seen": seen, "drawing": drawing}


@contextmanager
def published(state: Any, side: str) -> Iterator[Any]:
    """As a run does it: see palaestra.runner.live. Each side runs for its share of the time only, and so it may spend
    only that share of the budget: while it runs, there are as many pictures as in a run that is always watched."""
    from palaestra.envs.frame_sources import frame_source
    from palaestra.envs.vector.published import PublishedEnvs
    from palaestra.rendering.live_view import LiveView
    from palaestra.rendering.render_client import RenderClient
    from palaestra.runner.live import open_frame_buffer

    live, inner = state.config.live, state.envs
    source = frame_source(inner, state.config.env)
    with ExitStack() as stack:
        writer = open_frame_buffer(stack, lane(side), min(source.count, live.tiles), live.largest_side, complain)
        client = RenderClient(lane(side), complain, short_wait=0.0)
        view = LiveView(writer, live.budget / len(SIDES), live.largest_side, client=client, on_failure=complain)
        yield PublishedEnvs(inner, source, stack.enter_context(closing(view)), 0, inner.count)


def complain(reason: str) -> None:
    raise RuntimeError(f"there is nothing to measure without a live view: {reason}")


def lane(side: str) -> Path:
    from palaestra.rendering.frame_buffer import frame_buffer_path

    return frame_buffer_path(side.upper().replace(" ", "_"))


def is_wanted(side: str) -> bool:
    from palaestra.rendering.frame_buffer import FrameBufferFile
    from palaestra.rendering.frame_writer import FrameWriter

    with closing(FrameBufferFile(lane(side))) as file, closing(FrameWriter(file.descriptor, file.about)) as writer:
        return writer.is_wanted(time.monotonic())


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the viewers do not answer"
        time.sleep(0.01)


def seconds_drawing(side: str) -> float:
    """What the run itself says in its lane that pictures have cost it so far."""
    from palaestra.rendering.frame_reader import FrameReader

    with closing(FrameReader(lane(side))) as reader:
        beat = reader.heartbeat()
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
    with patch.dict(os.environ, {"PALAESTRA_FRAME_BUFFERS_DIR": str(lanes)}):
        yield
    lanes.rmdir()  # fails when a lane was left behind


def shared_memory(otherwise: str) -> str:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else otherwise


def slower(side: list[dict[str, float]], off: list[dict[str, float]], what: str) -> tuple[float, float, float]:
    """Each stretch beside that of its own turn: the mean of the logarithms of the ratios (a mean of ratios that jitter
    by a fifth is too large by their variance), those furthest out pulled in to where the others end, and its 95 %
    interval by resampling. Not the median: pictures are in some stretches, not in all."""
    ratios = np.log([[one[what] / other[what] for one, other in zip(side, off, strict=True)]])
    means = pulled_in(np.random.default_rng(0).choice(ratios[0], (DRAWS, ratios.size)))
    middle, low, high = np.expm1([pulled_in(ratios)[0], *np.quantile(means, [0.025, 0.975])])
    return float(middle), float(low), float(high)


def pulled_in(ratios: np.ndarray) -> np.ndarray:
    """The mean of each row, the outermost tenths of it pulled in."""
    low, high = np.quantile(ratios, [SPREAD_FROM, 1 - SPREAD_FROM], axis=1, keepdims=True)
    return np.asarray(ratios.clip(low, high).mean(axis=1))


def page(result: dict[str, Any]) -> str:
    sides, steps, seen = result["sides"], result["steps"], result["seen"]

    def row(side: str) -> str:
        cells = [f"{steps / median(one['seconds'] for one in sides[side]):,.0f}"]
        for what in ("seconds", "processor_seconds"):
            middle, low, high = slower(sides[side], sides["off"], what)
            cells.append(f"{middle:+.2%} ({low:+.2%} to {high:+.2%})" if side != "off" else "")
        return f"| {side} | {' | '.join(cells)} |"

    own = result["drawing"] / sum(one["seconds"] for one in sides["watched"])
    ages = sorted(seen["ages"]) or [0.0]
    seconds = sum(one["seconds"] for one in sides["watched"])
    return "\n".join(
        [
            "# What watching costs",
            "",
            f"Written by `python benchmarks/live_view.py --engine {result['engine']}`: {result['turns']} turns of one",
            "training; means of the ratios within each turn (the outermost tenths pulled in), with 95 % intervals.",
            (
                f"{result['cores']} cores, load before {result['load_before']:.2f}. CartPole-v1, 8 environments, "
                f"{steps:,} steps a stretch; {VIEWERS} viewers at {FRAMES_PER_SECOND:g} frames/s "
                "a tile, elsewhere."
            ),
            "",
            "| live view | steps/s | slower than off | processor time more than off |",
            "|---|---|---|---|",
            *(row(side) for side in SIDES),
            "",
            (
                "By its own account, which counts every moment that it draws, copies and rings, the watched run spent "
                f"{own:.2%} of its time on pictures (`live.budget`)."
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
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--engine", default="torch", choices=ITERATIONS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    result = {"turns": asked.turns, "engine": asked.engine, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    result |= measure_all(asked.turns, ITERATIONS[asked.engine], asked.engine)
    asked.out.mkdir(parents=True, exist_ok=True)
    name = "live-view" if asked.engine == "torch" else f"live-view-{asked.engine}"
    (asked.out / f"{name}.json").write_text(json.dumps(result) + "\n")
    (asked.out / f"{name}.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
