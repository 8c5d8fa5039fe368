"""Writer and readers together, in processes of their own."""

from __future__ import annotations

import random
import time

import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics import MetricsReader, MetricsWriter

WRITE = """
import sys; from itertools import count; from pathlib import Path
from palaestra.core.episodes import EpisodeResult
from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics import MetricsWriter
writer = MetricsWriter(Path(sys.argv[1])); start = int(sys.argv[2])
writer.rewind(start); print("ready", flush=True)
for step in count(start + 1):
    names = {f"name/{number}": float(step) for number in range(10)}
    writer.write(Sample(step, names, {"t": 1.0}, (EpisodeResult(None, float(step), 1, True),)))
    if step % 50 == 0: writer.flush()
    print(step, flush=True)
"""


def whole_steps(path) -> list[int]:
    """Steps on disk, after demanding that each is there with all its points and its episode."""
    with MetricsReader(path) as reader:
        steps = [point.step for point in reader.steps()]
        for number in range(10):
            assert reader.series(f"name/{number}") == [(step, float(step)) for step in steps]
        assert [episode.total_reward for episode in reader.episodes()] == [float(step) for step in steps]
    return steps


def test_a_reader_in_another_process_sees_whole_samples_while_they_are_written(tmp_path, start_python):
    path = tmp_path / "metrics.db"
    start_python(WRITE, path, 0)
    file_state: list[int] = []
    with MetricsReader(path) as reader:
        last = 0
        deadline = time.monotonic() + 30
        while len(file_state) < 300 and time.monotonic() < deadline:
            batch = reader.tail(last)
            assert len(batch) % 11 == 0
            file_state += [point.step for point in batch if point.name == "name/0"]
            last = batch[-1].sample if batch else last
    assert file_state[:300] == list(range(1, 301))


@pytest.mark.fault("S5")
@pytest.mark.parametrize("seed", range(5))
def test_kill_9_of_the_writer_loses_no_acknowledged_sample_and_tears_none(tmp_path, start_python, seed):
    path = tmp_path / "metrics.db"
    child = start_python(WRITE, path, 0)
    stop_after = random.Random(seed).randrange(1, 200)
    acknowledged = [int(child.stdout.readline()) for _ in range(stop_after)][-1]
    child.kill()
    child.wait()
    steps = whole_steps(path)
    assert steps == list(range(1, len(steps) + 1))
    assert steps[-1] >= acknowledged


@pytest.mark.fault("S5")
def test_killed_and_resumed_again_and_again_there_is_no_lost_and_no_doubled_row(tmp_path, start_python):
    path = tmp_path / "metrics.db"
    checkpoint = 0
    for _ in range(4):
        child = start_python(WRITE, path, checkpoint)
        acknowledged = [int(child.stdout.readline()) for _ in range(60)][-1]
        child.kill()
        child.wait()
        checkpoint = acknowledged - 20  # the newest checkpoint is older than the newest row
    with MetricsWriter(path) as writer:
        writer.rewind(checkpoint)
    assert whole_steps(path) == list(range(1, checkpoint + 1))


def test_many_buckets_of_a_long_run_are_quick(tmp_path):
    """Figures for docs/metrics.md come from here; the bound is loose for busy machines."""
    path = tmp_path / "metrics.db"
    with MetricsWriter(path) as writer:
        for step in range(5000):
            writer.write(Sample(step, {f"name/{number}": float(step) for number in range(10)}))
    with MetricsReader(path) as reader:
        began = time.perf_counter()
        buckets = reader.buckets("name/3", 500)
        assert time.perf_counter() - began < 1.0
    assert sum(bucket.point_count for bucket in buckets) == 5000
