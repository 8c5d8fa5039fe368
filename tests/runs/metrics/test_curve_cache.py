from __future__ import annotations

import contextlib
import json
import math
import os
import random

import pytest

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.metrics_logger import Interval, Sample, ValueRange
from palaestra.runs.directory import RunDirectory
from palaestra.runs.metrics import curve_cache
from palaestra.runs.metrics.curve_cache import INDEX_FILE, CurveCache, CurveIndex, curve_for, read_index, write_index
from palaestra.runs.metrics.curve_files import Curve, Extent
from palaestra.runs.metrics.reader import MetricsReader, WrittenSample
from palaestra.runs.metrics.writer import MetricsWriter


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "01HX0000000000000000000000"
    path.mkdir()
    return RunDirectory(path)


@pytest.fixture
def cache(tmp_path):
    return CurveCache(tmp_path / "cache")


def curve(cache, directory, name):
    """All its points"""
    found = cache.chart(directory, name, 1_000_000)
    return list(zip(found.x.tolist(), found.mean.tolist(), strict=True))


def truth(directory, name):
    with MetricsReader(directory.metrics_file) as reader:
        return [tuple(point) for point in reader.series(name)]


def test_a_curve_is_what_the_database_says_while_it_grows(directory, cache):
    with MetricsWriter(directory.metrics_file) as writer:
        for step in range(0, 300, 3):
            writer.write(Sample(step, {"a": step / 7, **({"b": 1.0} if step % 2 else {})}, at=1000.0 + step))
            if step % 60 == 0:
                assert curve(cache, directory, "a") == truth(directory, "a")
        assert curve(cache, directory, "b") == truth(directory, "b")
        over_time = cache.chart(directory, "a", 1000, "time")
        assert over_time.x.tolist() == [1000.0 + step for step in range(0, 300, 3)]


@pytest.mark.parametrize("at_once", [2, curve_cache.SAMPLES_PER_TRANSACTION])
@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_written_rewound_and_resumed_the_cache_agrees(directory, tmp_path, monkeypatch, seed, at_once):
    monkeypatch.setattr(curve_cache, "SAMPLES_PER_TRANSACTION", at_once)
    rng = random.Random(seed)
    cache = CurveCache(tmp_path / "cache")
    step = 0
    writer = MetricsWriter(directory.metrics_file)
    for _ in range(60):
        move = rng.choices(["write", "late", "rewind", "reopen", "look", "restart"], [8, 2, 1, 1, 4, 1])[0]
        if move == "write":
            step += rng.randint(1, 5)
            writer.write(Sample(step, {"a": rng.random(), "b": rng.random()}, {"t": 1.0}, at=rng.random()))
        elif move == "late":
            writer.write(Sample(rng.randint(0, step), {"a": rng.random(), "eval": rng.random()}, at=rng.random()))
        elif move == "rewind":
            step = rng.randint(0, step)
            writer.rewind(step)
        elif move == "reopen":
            writer.close()
            writer = MetricsWriter(directory.metrics_file)
        elif move == "restart":
            cache = CurveCache(tmp_path / "cache")
        else:
            with MetricsReader(directory.metrics_file) as reader:
                known = reader.names()
            for name in known:
                expected = truth(directory, name)
                assert (curve(cache, directory, name) if expected else []) == expected
    writer.close()


def interval_of(values, first):
    """Of as many iterations as values, one step each."""
    ranges = {"a": ValueRange(min(values), max(values), len(values))}
    last = first + len(values) - 1
    return Sample(
        last, {"a": sum(values) / len(values)}, at=1000.0 + last, interval=Interval(first, len(values), ranges)
    )


@pytest.mark.parametrize("restarts", [False, True])
def test_a_curve_whose_later_part_are_intervals_has_the_extremes_and_counts_of_every_value(
    directory, cache, tmp_path, restarts
):
    rng, values = random.Random(1), []
    with MetricsWriter(directory.metrics_file) as writer:
        for step in range(1, 101):
            values.append(rng.random())
            writer.write(Sample(step, {"a": values[-1]}, at=1000.0 + step))
        curve(cache, directory, "a")  # so far without intervals
        for first in range(101, 1501, 4):
            some = [rng.gauss(0, 1) if first != 777 else 99.0 for _ in range(4)]
            values += some
            writer.write(interval_of(some, first))
            if first % 200 == 101:
                cache = CurveCache(tmp_path / "cache") if restarts else cache
                assert cache.chart(directory, "a", 1).count.tolist() == [len(values)]
    found = cache.chart(directory, "a", 10)
    assert (found.min.min(), found.max.max(), found.count.sum()) == (min(values), 99.0, len(values))
    whole = cache.chart(directory, "a", 1)
    assert whole.mean[0] == pytest.approx(sum(values) / len(values))
    assert cache.chart(directory, "a", 1, "time").mean.tolist() == whole.mean.tolist()
    with MetricsReader(directory.metrics_file) as reader:
        assert reader.buckets("a", 1)[0][2:6] == pytest.approx((min(values), 99.0, whole.mean[0], len(values)))


def test_without_room_for_a_cache_intervals_come_from_the_run_itself(directory, tmp_path):
    (tmp_path / "cache").write_text("in the way")
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(0, {"a": math.inf}), interval_of([1.0, 2.0, 6.0], 1), interval_of([4.0], 4))
    for folder in ("cache", "another"):
        found = CurveCache(tmp_path / folder).chart(directory, "a", 10)
        assert math.isnan(found.max[0])
        assert (found.min.tolist()[1:], found.max.tolist()[1:]) == ([1.0, 4.0], [6.0, 4.0])
        assert (found.mean.tolist()[1:], found.count.tolist(), found.bad.tolist()) == ([3.0, 4.0], [0, 3, 1], [1, 0, 0])


def test_a_run_can_go_on_between_two_portions_of_a_long_reading(directory, cache, monkeypatch):
    """A file at rest becomes one with a log only when nobody reads it: a whole reading would hold the run up."""
    monkeypatch.setattr(curve_cache, "SAMPLES_PER_TRANSACTION", 2)
    monkeypatch.setattr("palaestra.runs.metrics.writer.BUSY_SECONDS", 0.01)
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(*(Sample(step, {"a": float(step)}) for step in range(5)))
    really_one_moment, steps = MetricsReader.consistent_snapshot, iter(range(3, 10))

    @contextlib.contextmanager
    def consistent_snapshot(reader):
        with really_one_moment(reader):
            yield
        step = next(steps)
        with MetricsWriter(directory.metrics_file) as writer:  # from a checkpoint at that step
            writer.rewind(step)
            writer.write(Sample(step + 1, {"a": -1.0}))

    monkeypatch.setattr(MetricsReader, "consistent_snapshot", consistent_snapshot)
    curve(cache, directory, "a")
    monkeypatch.undo()
    assert next(steps) > 5
    assert curve(cache, directory, "a") == truth(directory, "a")


def test_a_resumed_run_shows_nothing_of_what_was_taken_back(directory, cache):
    with MetricsWriter(directory.metrics_file) as writer:
        for step in range(10):
            writer.write(Sample(step, {"a": float(step)}, at=float(step)))
        writer.write(Sample(2, {"eval": 0.5}, at=50.0))  # judged late: the newest sample is not the furthest
        assert len(curve(cache, directory, "a")) == 10
        writer.rewind(4)
        assert curve(cache, directory, "a") == [(step, float(step)) for step in range(5)]
        writer.write(Sample(5, {"a": 55.0}, at=60.0))
        assert curve(cache, directory, "a")[-1] == (5, 55.0)
        assert curve(cache, directory, "eval") == [(2, 0.5)]


def test_nan_and_infinity_come_back(directory, cache):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(1, {"a": math.nan, "b": math.inf}))
    for name in ("a", "b"):
        found = cache.chart(directory, name, 10)
        assert (found.count.tolist(), found.bad.tolist()) == ([0], [1])
    assert cache.newest(directory)["b"].value == math.inf


def test_a_new_process_finds_what_the_last_one_laid_out(directory, cache, tmp_path, monkeypatch):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(1, {"a": 1.0}))
    cache.refresh(directory)
    monkeypatch.setattr(curve_cache, "_add_samples", lambda *_: pytest.fail("it was laid out again"))
    assert curve(CurveCache(tmp_path / "cache"), directory, "a") == [(1, 1.0)]


def test_nothing_is_opened_while_nothing_was_written(directory, cache, monkeypatch):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(1, {"a": 1.0}))
    os.utime(directory.metrics_file, (1000, 1000))
    cache.refresh(directory)
    monkeypatch.setattr(curve_cache, "MetricsReader", lambda *_: pytest.fail("it was opened"))
    assert curve(cache, directory, "a") == [(1, 1.0)]
    assert cache.newest(directory) == {"a": (1, 1.0)}


@pytest.mark.parametrize("harm", ["flip", "cut", "unlink", "index"])
def test_a_harmed_cache_is_laid_out_anew(directory, cache, tmp_path, harm):
    with MetricsWriter(directory.metrics_file) as writer:
        for step in range(20):
            writer.write(Sample(step, {"a": float(step)}))
    cache.refresh(directory)
    file = tmp_path / "cache" / directory.id / ("index.json" if harm == "index" else "0.points")
    content = file.read_bytes()
    if harm == "unlink":
        file.unlink()
    else:
        file.write_bytes(content[:50] if harm in {"cut", "index"} else content[:50] + b"\xff" + content[51:])
    assert curve(CurveCache(tmp_path / "cache"), directory, "a") == truth(directory, "a")


def test_where_nothing_can_be_stored_curves_come_straight_from_the_run(directory, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file in the way")
    cache = CurveCache(tmp_path / "cache")
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(1, {"a": 1.0}, {"a": 9.0}, at=5.0))
    assert curve(cache, directory, "a") == [(1, 1.0)]
    assert cache.chart(directory, "a", 10, "time", 4.0, 6.0).x.tolist() == [5.0]
    assert cache.newest(directory) == {"a": (1, 1.0)}
    with pytest.raises(NotFound, match="'c'"):
        cache.chart(directory, "c", 10)
    assert len([record for record in caplog.records if "No curves can be kept" in record.message]) == 1


def test_an_unknown_name_is_refused_with_the_nearest(directory, cache):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(1, {"losses/entropy": 1.0}))
    with pytest.raises(NotFound) as refused:
        cache.chart(directory, "losses/entrpy", 10)
    assert refused.value.hint == "Did you mean 'losses/entropy'?"


def test_a_run_without_metrics_has_none(directory, cache):
    with pytest.raises(NotFound):
        cache.newest(directory)


def test_a_damaged_database_is_named(directory, cache):
    directory.metrics_file.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    with pytest.raises(DamagedFile):
        cache.chart(directory, "a", 10)


def test_a_forgotten_run_leaves_nothing(directory, cache, tmp_path):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(1, {"a": 1.0}))
    cache.refresh(directory)
    cache.remove(directory.id)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_chart_of_a_long_run_has_every_spike_while_it_grows(directory, cache):
    rng = random.Random(1)
    with MetricsWriter(directory.metrics_file) as writer:
        for step in range(3000):
            writer.write(Sample(step, {"a": 100.0 if step == 1234 else rng.random()}, at=float(step)))
            if step % 500 == 0:
                found = cache.chart(directory, "a", 10)
                assert found.count.sum() == step + 1
                assert found.max.max() == max(value for _, value in truth(directory, "a"))
        zoomed = cache.chart(directory, "a", 50, "step", 1230, 1240)
        assert zoomed.mean.tolist() == [value for step, value in truth(directory, "a") if 1230 <= step <= 1240]


def test_a_daemon_that_was_killed_before_it_wrote_the_book_reads_the_rest_again(directory, cache, tmp_path):
    with MetricsWriter(directory.metrics_file) as writer:
        for step in range(100):
            writer.write(Sample(step, {"a": float(step)}))
        cache.refresh(directory)
        for step in range(100, 200):
            writer.write(Sample(step, {"a": float(step)}))
        writer.write(Sample(50, {"b": 1.0}))
        assert len(curve(cache, directory, "a")) == 200  # laid out, but the book on the disk still says 100
    again = CurveCache(tmp_path / "cache")
    assert curve(again, directory, "a") == truth(directory, "a")
    assert curve(again, directory, "b") == [(50, 1.0)]


def test_what_a_killed_daemon_left_half_written_is_cleared_away(directory, cache, tmp_path, dead_pid):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(1, {"a": 1.0}))
    cache.refresh(directory)
    left = tmp_path / "cache" / directory.id / f".tmp-{dead_pid}-1-index.json"
    left.write_text("{")
    CurveCache(tmp_path / "cache").refresh(directory)
    assert not left.exists()


def a_book():
    index = CurveIndex(identity=7, newest_sample=3, furthest=WrittenSample(2, 100, 5.25))
    a = Curve(0, True, Extent(3, 99), (Extent(1, 1), Extent(), Extent()), (100, 5.25, math.inf), False)
    return index.with_curve("a", a).with_curve("b", Curve(1, False))


def test_a_book_is_read_back_as_it_was_written(tmp_path):
    write_index(tmp_path, a_book())
    assert read_index(tmp_path) == a_book()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"curves": [{"name": "a", "number": "../../x", "is_metric": True, "extents": [], "last": None}]},
        {"curves": [{"name": "a", "number": 0, "is_metric": True, "extents": [[1, 1]], "last": None}]},
        {"curves": 3},
        {"furthest": ["x"]},
        {"newest": None},
    ],
)
def test_a_book_that_makes_no_sense_is_no_book(tmp_path, change):
    write_index(tmp_path, a_book())
    content = json.loads((tmp_path / INDEX_FILE).read_text())
    (tmp_path / INDEX_FILE).write_text(json.dumps({**content, **change}))
    assert read_index(tmp_path) is None


def test_without_a_book_there_is_none(tmp_path):
    assert read_index(tmp_path) is None
    (tmp_path / INDEX_FILE).write_text("[]")
    assert read_index(tmp_path) is None


def test_a_metric_takes_the_place_of_a_timing_of_its_name_and_not_the_other_way_round():
    index = a_book()
    assert curve_for(index.curves, "a", is_metric=False) is None
    assert curve_for(index.curves, "a", is_metric=True) is index.curves["a"]
    assert curve_for(index.curves, "b", is_metric=False) is index.curves["b"]
    assert curve_for(index.curves, "b", is_metric=True) == Curve(1, True)
    assert curve_for(index.curves, "c", is_metric=True) == Curve(2, True)
