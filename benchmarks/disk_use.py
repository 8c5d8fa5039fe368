"""What a training leaves on the disk: `python benchmarks/disk_use.py`.

    python benchmarks/disk_use.py --steps 10_000_000 --every-value      # as it was before metrics were downsampled

Synthetic reports of CartPole (256 steps per iteration, episodes that grow from 20 to 500 steps) go through the loggers
of a run as fast as they take them, and through the daemon's copy of the curves. Sizes do not depend on the speed, so an
hour at 300,000 steps/s (1.08e9 steps) takes some minutes. Checkpoints, journal and logs, which grow with time, are not
in it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.config.loggers import LoggersConfig
from palaestra.core.episodes import EpisodeColumns
from palaestra.core.reports import IterationReport, PhaseTimes, PpoStats
from palaestra.loggers.build import build_loggers
from palaestra.loggers.samples import sample_of
from palaestra.loggers.status import RunHeader
from palaestra.runs.directory import RunDirectory
from palaestra.runs.disk_use import measure_disk_use
from palaestra.runs.metrics.curve_cache import CurveCache

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS_PER_HOUR = 1_080_000_000  # at 300,000 steps/s
ITERATION_STEPS = 256
AT_ONCE = 64  # reports, as a fast training tells them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS_PER_HOUR)
    parser.add_argument("--every-value", action="store_true", help="loggers.downsample=false")
    asked = parser.parse_args()
    print(json.dumps(measure(asked.steps, downsample=not asked.every_value), indent=2))


def measure(steps: int, *, downsample: bool = True) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="palaestra-disk-") as folder:
        root = Path(folder)
        run = RunDirectory(root / "01HX0000000000000000000000").make()
        seconds = _feed(run, steps, downsample=downsample)
        cache = CurveCache(root / "curves")
        cache.refresh(run)
        use = measure_disk_use(run, root / "curves" / run.id)
    iterations = steps // ITERATION_STEPS
    return {
        "steps": steps,
        "downsample": downsample,
        "bytes": use.total,
        "bytes per step": round(use.total / steps, 4),
        "parts": use.parts,
        "processor time of the loggers per iteration, µs": round(seconds / iterations * 1e6, 2),
    }


def _feed(run: RunDirectory, steps: int, *, downsample: bool) -> float:
    """All reports to the loggers; the processor time that these took."""
    header = RunHeader(name="bench", recipe="cartpole", total_steps=steps, directory=run.path)
    seconds, waiting = 0.0, []
    with build_loggers(LoggersConfig(console=False, downsample=downsample), run, header, {}, _refuse) as loggers:
        for report in _reports(steps // ITERATION_STEPS):
            waiting.append(sample_of(report, 300_000.0, at=report.env_steps / 300_000))
            if len(waiting) == AT_ONCE:
                began = time.process_time()
                loggers.write(*waiting)
                seconds += time.process_time() - began
                waiting = []
        loggers.write(*waiting)
    return seconds


def _refuse(name: str, error: Exception) -> None:
    raise RuntimeError(f"the logger {name} failed") from error


def _reports(iterations: int) -> Iterator[IterationReport]:
    generator = random.Random(1)
    for iteration in range(1, iterations + 1):
        step, length = iteration * ITERATION_STEPS, min(500, 20 + iteration // 4)
        count = ITERATION_STEPS // length + (generator.random() < ITERATION_STEPS % length / length)
        numbers = [generator.random() for _ in range(11)]
        yield IterationReport(
            iteration=iteration,
            env_steps=step,
            update=PpoStats(*numbers[:9], minibatches=4),
            episodes=EpisodeColumns(range(count), [float(length)] * count, [length] * count, [True] * count, step),
            times=PhaseTimes(rollout=numbers[9], learn=numbers[10]),
        )


if __name__ == "__main__":
    main()
