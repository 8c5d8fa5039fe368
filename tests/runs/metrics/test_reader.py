from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from palaestra.core.episodes import EpisodeColumns, EpisodeResult
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.metrics_logger import EpisodeSummary, Interval, Sample, ValueRange
from palaestra.runs.metrics.reader import Bucket, MetricsReader, TailPoint
from palaestra.runs.metrics.schema import APPLICATION_ID, TABLES
from palaestra.runs.metrics.writer import MetricsWriter


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.db"


@pytest.fixture
def writer(path):
    with MetricsWriter(path) as writer:
        yield writer


@pytest.fixture
def reader(path, writer):
    with MetricsReader(path) as reader:
        yield reader


def write_all(writer, values) -> None:
    for step, value in values:
        writer.write(Sample(step, {"a": value}))


def test_names_are_sorted_and_timings_can_be_left_out(writer, reader):
    writer.write(Sample(1, {"b": 1.0, "a": 1.0}, {"charts/SPS": 5.0}))
    assert reader.names() == ["a", "b", "charts/SPS"]
    assert reader.names(timings=False) == ["a", "b"]


def test_a_series_is_cut_at_both_ends_inclusively(writer, reader):
    write_all(writer, [(step, step / 2) for step in range(10)])
    assert reader.series("a") == [(step, step / 2) for step in range(10)]
    assert reader.series("a", start=3, end=5) == [(3, 1.5), (4, 2.0), (5, 2.5)]


def test_nan_comes_back_as_nan_and_missing_does_not_come_back(writer, reader):
    write_all(writer, [(1, 0.0), (2, math.nan)])
    writer.write(Sample(3, {"b": 1.0}))
    first, second = reader.series("a")
    assert first == (1, 0.0)
    assert second.step == 2
    assert math.isnan(second.value)


def test_the_last_point_is_the_one_with_the_greatest_step(writer, reader):
    write_all(writer, [(1, 5.0), (2, 4.0)])
    assert reader.last("a") == (2, 4.0)
    writer.rewind(0)
    assert reader.last("a") is None


def test_an_unknown_name_is_replied_to_with_the_nearest(writer, reader):
    writer.write(Sample(1, {"losses/value_loss": 1.0}))
    with pytest.raises(NotFound, match="Did you mean 'losses/value_loss'"):
        reader.series("losses/valu_loss")


def test_buckets_agree_with_a_plain_count_and_lose_no_spike(writer, reader):
    source = random.Random(1)
    values = [(step, source.gauss(0, 1)) for step in sorted(source.sample(range(5000), 700))]
    values[333] = (values[333][0], 1e9)
    values[500] = (values[500][0], -1e9)
    write_all(writer, values)
    buckets = reader.buckets("a", 37)
    assert len(buckets) <= 37
    assert sum(bucket.point_count for bucket in buckets) == 700
    for bucket in buckets:
        inside = [value for step, value in values if bucket.step_first <= step <= bucket.step_last]
        assert (bucket.min, bucket.max, bucket.point_count) == (min(inside), max(inside), len(inside))
        assert bucket.mean == pytest.approx(sum(inside) / len(inside))
    assert max(bucket.max for bucket in buckets) == 1e9
    assert min(bucket.min for bucket in buckets) == -1e9
    edges = [step for bucket in buckets for step in (bucket.step_first, bucket.step_last)]
    assert edges == sorted(edges)


def test_nan_in_a_bucket_hides_nothing_and_is_counted(writer, reader):
    write_all(writer, [(0, 1.0), (1, math.nan), (2, 3.0), (100, math.nan)])
    first, last = reader.buckets("a", 2)
    assert first == Bucket(0, 2, 1.0, 3.0, 2.0, 2, 1)
    assert (last.point_count, last.nan_count) == (0, 1)
    assert math.isnan(last.max)


def test_buckets_of_a_range_and_of_nothing(writer, reader):
    write_all(writer, [(step, float(step)) for step in range(10)])
    assert reader.buckets("a", 1, start=2, end=4) == [Bucket(2, 4, 2.0, 4.0, 3.0, 3)]
    assert reader.buckets("a", 5, start=50) == []


def test_a_tail_gives_each_point_once_in_order_also_after_a_rewind(writer, reader):
    writer.write(Sample(1, {"b": 1.0, "a": 2.0}))
    file_state = reader.tail()
    assert file_state == [TailPoint(1, 1, "a", 2.0), TailPoint(1, 1, "b", 1.0)]
    assert reader.tail(file_state[-1].sample) == []
    writer.write(Sample(2, {"a": 3.0}))
    assert reader.tail(1) == [TailPoint(2, 2, "a", 3.0)]
    writer.rewind(1)
    writer.write(Sample(2, {"a": 3.5}))
    assert reader.tail(2) == [TailPoint(3, 2, "a", 3.5)]


def test_a_late_point_of_an_old_step_is_in_the_tail(writer, reader):
    write_all(writer, [(1, 1.0), (2, 2.0)])
    writer.write(Sample(1, {"eval/episodic_return": 9.0}))
    assert reader.tail(2) == [TailPoint(3, 1, "eval/episodic_return", 9.0)]


def test_episodes_come_back_as_they_were(writer, reader):
    episodes = (
        EpisodeResult(None, 1.5, 10, terminated=True, env_step=7, extras={"x": 2.0, "bad": math.inf}),
        EpisodeResult(4, -3.0, 11, terminated=False, env_index=1, env_step=8),
    )
    writer.write(Sample(8, {}, episodes=episodes))
    writer.write(Sample(16, {}, episodes=(EpisodeResult(None, 0.0, 1, terminated=True, env_step=9),)))
    assert reader.episodes(end=8) == list(episodes)
    assert [episode.env_step for episode in reader.episodes()] == [7, 8, 9]
    assert [episode.env_step for episode in reader.episodes(limit=2)] == [8, 9]


def test_episodes_in_columns_are_the_same_rows_as_episodes_one_by_one(path, tmp_path):
    other = tmp_path / "other.db"
    returns = (1.5, math.nan, np.float32(-2.0))  # as an environment may sum them
    columns = EpisodeColumns((3, 0, 3), returns, (10, 11, 12), (True, False, True), env_step=8)
    for file, episodes in ((path, columns), (other, tuple(columns))):
        with MetricsWriter(file) as writer:
            writer.write(Sample(8, {"a": 1.0}, episodes=episodes), Sample(16, {}, episodes=episodes))
    with MetricsReader(path) as one, MetricsReader(other) as two:
        assert one.rows() == two.rows()
        assert [episode.length for episode in one.episodes()] == [10, 11, 12, 10, 11, 12]


def test_rows_hold_what_the_seed_decides_and_no_times(path, tmp_path):
    other = tmp_path / "other.db"
    for file, offset in ((path, 0.0), (other, 100.0)):
        with MetricsWriter(file) as writer:
            if offset:  # a restart, a rewind, another order of names
                writer.write(Sample(9, {"z": 1.0}))
                writer.rewind(0)
            writer.write(Sample(1, {"a": math.nan, "b": 2.0}, {"SPS": offset}, at=offset))
            writer.write(Sample(2, {"b": 1.0}, episodes=(EpisodeResult(None, 1.0, 2, terminated=True),), at=offset))
    with MetricsReader(path) as one, MetricsReader(other) as two:
        assert one.rows() == two.rows()
        assert one.rows()[:3] == [("metric", 1, "a", "NaN"), ("metric", 1, "b", 2.0), ("metric", 2, "b", 1.0)]
        assert len(one.rows()) == 4


def test_a_single_bit_of_difference_is_observed_in_the_rows(path, tmp_path):
    other = tmp_path / "other.db"
    for file, value in ((path, 0.1), (other, math.nextafter(0.1, 1))):
        with MetricsWriter(file) as writer:
            writer.write(Sample(1, {"a": value}))
    with MetricsReader(path) as one, MetricsReader(other) as two:
        assert one.rows() != two.rows()


def test_wall_time_of_every_sample(writer, reader):
    writer.write(Sample(1, {}, at=10.0))
    writer.write(Sample(2, {}, at=9.0))
    assert reader.steps() == [(1, 10.0), (2, 9.0)]


def test_a_reader_writes_nothing(path):
    with MetricsWriter(path) as writer:
        writer.write(Sample(1, {"a": 1.0}))
    before = path.read_bytes()
    with MetricsReader(path) as reader:
        assert len(reader.series("a")) == 1
    assert path.read_bytes() == before


@pytest.fixture
def archive():
    """A directory that an ordinary user can read and not write; as root we become an ordinary user for it."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextlib.contextmanager
def as_ordinary_user(directory):
    directory.chmod(0o555)
    for file in directory.iterdir():
        file.chmod(0o444)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o755)


def test_a_finished_run_can_be_read_from_a_place_that_cannot_be_written(path, archive):
    with MetricsWriter(path) as writer:
        writer.write(Sample(1, {"a": 1.0}))
    shutil.copy(path, archive / "metrics.db")
    with as_ordinary_user(archive), MetricsReader(archive / "metrics.db") as reader:
        assert reader.last("a") == (1, 1.0)


def test_so_can_a_copy_of_a_running_one_without_its_log(path, writer, archive):
    writer.write(Sample(1, {"a": 1.0}))
    writer.flush()
    shutil.copy(path, archive / "metrics.db")
    with as_ordinary_user(archive), MetricsReader(archive / "metrics.db") as reader:
        assert reader.last("a") == (1, 1.0)


def test_a_copy_whose_log_would_have_to_be_left_out_is_refused(path, writer, archive):
    writer.write(Sample(1, {"a": 1.0}))
    for name in ("metrics.db", "metrics.db-wal"):
        shutil.copy(path.with_name(name), archive / name)
    with as_ordinary_user(archive), pytest.raises(DamagedFile, match="log beside it"):
        MetricsReader(archive / "metrics.db")


def test_a_path_with_strange_letters_is_opened(tmp_path):
    path = tmp_path / "a b?#%41" / "metrics.db"
    path.parent.mkdir()
    with MetricsWriter(path) as writer:
        writer.write(Sample(1, {"a": 1.0}))
    with MetricsReader(path) as reader:
        assert reader.last("a") == (1, 1.0)


def test_a_missing_file_is_not_found_and_not_made(path):
    with pytest.raises(NotFound, match=r"metrics\.db"):
        MetricsReader(path)
    assert not path.exists()


def test_a_database_whose_writer_has_only_just_begun_has_no_metrics_yet(path):
    path.touch()
    with pytest.raises(NotFound, match="yet"):
        MetricsReader(path)


@pytest.mark.parametrize("size", [50, 5000])
def test_a_file_that_is_no_database_is_refused_by_name(path, size):
    path.write_bytes(os.urandom(size))
    with pytest.raises(DamagedFile, match=r"metrics\.db"):
        MetricsReader(path)


def test_a_tail_can_be_taken_a_few_samples_at_a_time(writer, reader):
    for step in range(5):
        writer.write(Sample(step, {"a": float(step), "b": 0.0}))
    first = reader.tail(0, limit=2)
    assert [point.step for point in first] == [0, 0, 1, 1]
    rest = reader.tail(first[-1].sample, limit=100)
    assert first + rest == reader.tail(0)
    assert reader.tail(rest[-1].sample, limit=2) == []


def test_samples_are_found_by_number_and_by_how_far_they_reach(writer, reader):
    assert reader.newest_sample() == 0
    assert reader.furthest_sample() is None
    writer.write(Sample(10, {"a": 1.0}, at=1.5))
    writer.write(Sample(5, {"eval": 1.0}, at=2.5))
    assert reader.newest_sample() == 2
    assert reader.furthest_sample() == reader.sample(1) == (1, 10, 1.5)
    assert reader.furthest_sample(after=1) == (2, 5, 2.5)
    assert reader.furthest_sample(until=1) == (1, 10, 1.5)
    assert [reader.nth_sample(0, 1), reader.nth_sample(0, 9), reader.nth_sample(2, 1)] == [1, 2, 2]
    writer.rewind(7)
    assert reader.sample(1) is None


def test_raw_points_say_when_and_under_which_key(writer, reader):
    writer.write(Sample(10, {"a": math.nan}, {"a": 2.0}, at=1.5))
    writer.write(Sample(5, {"b": 3.0}, at=2.5))
    keys = reader.keys()
    found = [(*keys[key], step, at, value) for key, step, at, value, *_ in reader.raw_points()]
    assert sorted(found, key=str) == sorted(
        [("b", True, 5, 2.5, 3.0), ("a", True, 10, 1.5, None), ("a", False, 10, 1.5, 2.0)], key=str
    )
    assert [row[1] for row in reader.raw_points(after=1)] == [5]
    assert [row[1] for row in reader.raw_points(until=1)] == [10, 10]


def test_one_moment_does_not_see_what_is_written_meanwhile(writer, reader):
    writer.write(Sample(1, {"a": 1.0}))
    with reader.consistent_snapshot():
        writer.write(Sample(2, {"a": 2.0}))
        assert reader.newest_sample() == 1
    assert reader.newest_sample() == 2


def interval_sample(step: int, first_step: int, values: list[float], **others: float) -> Sample:
    """As a downsampled training writes it: of as many iterations as values."""
    ranges = {"a": ValueRange(min(values), max(values), len(values))}
    metrics = {"a": sum(values) / len(values), **others}
    return Sample(step, metrics, at=float(step), interval=Interval(first_step, len(values), ranges))


def test_buckets_of_intervals_have_the_extremes_mean_and_count_of_every_value(writer, reader, tmp_path):
    values = [float(value) for value in (3, 1, 4, 1, 5, 900, 2, 6, -800, 5, 3, 5)]
    for folder in range(0, 12, 3):
        writer.write(interval_sample(folder + 3, folder + 1, values[folder : folder + 3]))
    (bucket,) = reader.buckets("a", 1)
    assert bucket[2:] == (-800.0, 900.0, sum(values) / 12, 12, 0)
    assert [one.max for one in reader.buckets("a", 4)] == [4.0, 900.0, 6.0, 5.0]
    assert [point.step for point in reader.series("a")] == [3, 6, 9, 12]


def test_values_of_an_interval_that_are_not_finite_are_counted_apart(writer, reader):
    nothing = ValueRange(math.nan, math.nan, 0, 2)
    writer.write(Sample(2, {"a": math.nan}, interval=Interval(1, 2, {"a": nothing})))
    writer.write(interval_sample(4, 3, [1.0, 3.0]))
    (bucket,) = reader.buckets("a", 1)
    assert bucket[2:] == (1.0, 3.0, 2.0, 2, 2)


def test_two_runs_differ_when_only_the_extremes_of_an_interval_do(tmp_path):
    for name, values in (("one", [1.0, 3.0]), ("two", [0.0, 4.0])):
        with MetricsWriter(tmp_path / name) as writer:
            writer.write(interval_sample(2, 1, values))
    with MetricsReader(tmp_path / "one") as one, MetricsReader(tmp_path / "two") as two:
        assert one.series("a") == two.series("a")
        assert one.rows() != two.rows()


def test_episodes_that_were_summarized_are_read_back(writer, reader):
    summary = EpisodeSummary(3, 2, 1.5, -1.0, math.inf, 20.5, 3, 40)
    writer.write(Sample(5, {"a": 1.0}, episode_summary=summary), Sample(6, {"a": 1.0}))
    assert reader.episode_summaries() == [(5, summary)]
    assert reader.episode_summaries(start=6) == []
    writer.rewind(4)
    assert reader.episode_summaries() == []


@pytest.fixture
def old_file(tmp_path):
    """As it was written before there were intervals."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;")
        connection.execute("INSERT INTO names VALUES (1, 'a', 1)")
        connection.execute("INSERT INTO samples VALUES (1, 10, 1.5)")
        connection.execute("INSERT INTO points VALUES (10, 1, 2.5, 1)")
        connection.commit()
    return path


def test_a_file_from_before_there_were_intervals_is_read_and_left_as_it_is(old_file):
    before = old_file.read_bytes()
    with MetricsReader(old_file) as reader:
        assert reader.buckets("a", 5) == [(10, 10, 2.5, 2.5, 2.5, 1, 0)]
        assert list(reader.raw_points()) == [(1, 10, 1.5, 2.5, 2.5, 2.5, 1, 0)]
        assert reader.rows() == [("metric", 10, "a", 2.5)]
        assert reader.episode_summaries() == []
    assert old_file.read_bytes() == before


def test_a_run_that_goes_on_in_such_a_file_can_write_intervals(old_file):
    with MetricsWriter(old_file) as writer:
        writer.write(interval_sample(12, 11, [7.0, 9.0]))
    with MetricsReader(old_file) as reader:
        assert [bucket.max for bucket in reader.buckets("a", 5)] == [2.5, 9.0]
