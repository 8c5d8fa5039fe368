from __future__ import annotations

import math
import os
import re
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from palaestra.core.episodes import EpisodeColumns, EpisodeResult
from palaestra.core.errors import DamagedFile, RunFailed, UsageError
from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics.writer import (
    POINTS_PER_STATEMENT,
    MetricsInUse,
    MetricsWriter,
    episode_rows,
    point_statements,
    wait_for_writer,
)


def make_sample(step, metrics=None, timings=None, episodes=()):
    return Sample(step=step, at=1.0, metrics=metrics or {}, timings=timings or {}, episodes=episodes)


def id_of(name, reproducible):
    return int(name) + (0 if reproducible else 1000)


def written(*samples):
    """What SQLite has of them, and how often it was asked."""
    statements = [(text, list(rows)) for text, rows in point_statements(enumerate(samples, start=1), id_of)]
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE points (step, name, value, sample, PRIMARY KEY (step, name))")
        for text, rows in statements:
            connection.executemany(text, rows)
        found = connection.execute("SELECT * FROM points ORDER BY step, name").fetchall()
    connection.close()
    return found, [len(rows) for _, rows in statements]


def test_points_have_step_name_value_and_sample():
    found, _ = written(make_sample(64, {"1": 0.5, "2": 3}, {"7": 0.25}))
    assert found == [(64, 1, 0.5, 1), (64, 2, 3.0, 1), (64, 1007, 0.25, 1)]


def test_samples_with_the_same_names_share_a_statement():
    few, others, many = {"1": 1.0}, {"2": 1.0}, {"1": 1.0, "2": 2.0}
    found, rows = written(*(make_sample(step, metrics) for step, metrics in enumerate([few, few, many, few, others])))
    assert rows == [2, 1, 1, 1]
    assert [point[1] for point in found] == [1, 1, 1, 2, 1, 2]
    assert [point[3] for point in found] == [1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize(
    "count", [0, 1, POINTS_PER_STATEMENT - 1, POINTS_PER_STATEMENT, POINTS_PER_STATEMENT + 1, 3 * POINTS_PER_STATEMENT]
)
def test_no_statement_has_more_numbers_than_every_sqlite_takes(count):
    wide = make_sample(64, {str(number): float(number) for number in range(count)})
    found, _ = written(wide)
    assert found == [(64, number, float(number), 1) for number in range(count)]
    texts = [text for text, _ in point_statements([(1, wide)], id_of)]
    assert all(int(number) < 999 for text in texts for number in re.findall(r"\?(\d+)", text))


def test_what_comes_later_replaces_what_was_reported_of_the_same_step():
    found, _ = written(make_sample(64, {"1": 1.0}), make_sample(64, {"1": 2.0}))
    assert found == [(64, 1, 2.0, 2)]


def test_episodes_side_by_side_give_the_rows_of_episodes_one_by_one():
    columns = EpisodeColumns([0, 3], [1.5, 2.5], [10, 20], [True, False], env_step=64)
    assert list(episode_rows(make_sample(64, episodes=columns))) == list(
        episode_rows(make_sample(64, episodes=tuple(columns)))
    )


def test_an_episode_has_its_seed_and_its_further_figures_in_one_order():
    one = EpisodeResult(9, 1.5, 10, terminated=True, env_index=2, env_step=60, extras={"b": float("nan"), "a": 1})
    assert list(episode_rows(make_sample(64, episodes=[one]))) == [
        (64, 60, 2, 9, 1.5, 10, True, '{"a": 1, "b": "NaN"}')
    ]


HOLD = """
import sys; from pathlib import Path
from palaestra.runs.metrics.writer import MetricsInUse, MetricsWriter, wait_for_writer
writer = MetricsWriter(Path(sys.argv[1])); print("ready", flush=True); input()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.db"


def query(path, text):
    """Read with plain SQL, as another tool would, not through our reader."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(text).fetchall()


def points(path):
    return query(
        path,
        "SELECT step, names.name, value FROM points JOIN names ON names.id = points.name ORDER BY step, names.name",
    )


def sample(step: int, **options) -> Sample:
    return Sample(step, {"losses/a": step / 2, "losses/b": 0.0}, **options)


def test_a_sample_is_written_with_its_time_timings_and_episodes(path):
    episode = EpisodeResult(None, 9.5, 20, terminated=True, env_index=3, env_step=500, extras={"x": 1.0})
    with MetricsWriter(path) as writer:
        writer.write(Sample(512, {"losses/a": 0.5}, {"charts/SPS": 99.0}, (episode,), at=7.0))
    assert points(path) == [(512, "charts/SPS", 99.0), (512, "losses/a", 0.5)]
    assert query(path, "SELECT name, reproducible FROM names ORDER BY name") == [("charts/SPS", 0), ("losses/a", 1)]
    assert query(path, "SELECT step, at FROM samples") == [(512, 7.0)]
    columns = "step, env_step, env_index, seed, total_reward, length, terminated, extras"
    assert query(path, f"SELECT {columns} FROM episodes") == [(512, 500, 3, None, 9.5, 20, 1, '{"x": 1.0}')]


def test_missing_zero_nan_and_infinity_are_four_things(path):
    with MetricsWriter(path) as writer:
        writer.write(Sample(1, {"zero": 0.0, "nan": math.nan, "infinite": -math.inf}))
    assert points(path) == [(1, "infinite", -math.inf), (1, "nan", None), (1, "zero", 0.0)]


def test_rewind_drops_all_that_came_later_and_nothing_else(path):
    with MetricsWriter(path) as writer:
        for step in (1, 2, 3):
            writer.write(sample(step, timings={"t": 1.0}, episodes=(EpisodeResult(None, 1.0, 1, terminated=True),)))
        writer.rewind(2)
    for table in ("samples", "episodes", "points"):
        assert {step for (step,) in query(path, f"SELECT DISTINCT step FROM {table}")} == {1, 2}


def test_a_resumed_run_has_no_lost_and_no_doubled_row(path, tmp_path):
    other = tmp_path / "other.db"
    with MetricsWriter(other) as writer:
        for step in range(1, 6):
            writer.write(sample(step))
    with MetricsWriter(path) as writer:
        for step in range(1, 5):
            writer.write(sample(step))
    with MetricsWriter(path) as writer:
        writer.rewind(3)
        for step in range(4, 6):
            writer.write(sample(step))
    assert points(path) == points(other)


def test_the_same_name_at_the_same_step_is_replaced_and_not_doubled(path):
    with MetricsWriter(path) as writer:
        writer.write(Sample(1, {"a": 1.0, "b": 1.0}))
        writer.write(Sample(1, {"a": 2.0}))
    assert points(path) == [(1, "a", 2.0), (1, "b", 1.0)]


def test_a_second_writer_is_refused_with_the_pid_of_the_first(path, start_python):
    child = start_python(HOLD, path)
    with pytest.raises(UsageError, match=f"process {child.pid}"):
        MetricsWriter(path)
    child.kill()
    child.wait()
    MetricsWriter(path).close()


def test_a_second_writer_in_the_same_process_is_refused_too(path):
    with MetricsWriter(path), pytest.raises(UsageError):
        MetricsWriter(path)


def test_a_failed_write_leaves_nothing_behind_and_the_next_one_works(path):
    with MetricsWriter(path) as writer:
        writer.write(sample(1))
        pages = writer._connection.execute("PRAGMA page_count").fetchone()[0]
        writer._connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        many = {f"name/{number}": 1.0 for number in range(1000)}
        with pytest.raises(RunFailed, match=r"step 2 could not be written.*full"):
            writer.write(Sample(2, many))
        writer._connection.execute("PRAGMA max_page_count = 100000").fetchall()
        writer.write(Sample(3, many))
    assert {step for step, _, _ in points(path)} == {1, 3}
    assert len(points(path)) == 2 + 1000


def test_many_at_once_are_what_they_are_one_by_one(path, tmp_path):
    many = [sample(step, episodes=(EpisodeResult(None, float(step), 1, terminated=True),)) for step in range(1, 9)]
    with MetricsWriter(path) as writer:
        writer.write(*many[:3])
        writer.write()
        writer.write(*many[3:])
    other = tmp_path / "other.db"
    with MetricsWriter(other) as writer:
        for one in many:
            writer.write(one)
    for table in ("samples", "points", "episodes", "names"):
        assert query(path, f"SELECT * FROM {table}") == query(other, f"SELECT * FROM {table}")


def test_of_many_at_once_none_is_written_when_one_cannot_be(path):
    with MetricsWriter(path) as writer:
        with pytest.raises(TypeError):
            writer.write(Sample(1, {"a": 1.0}), Sample(2, {"a": None}))
        writer.write(Sample(3, {"a": 1.0}))
    assert query(path, "SELECT id, step FROM samples") == [(1, 3)]
    assert points(path) == [(3, "a", 1.0)]


def test_a_value_that_is_no_number_leaves_no_half_sample(path):
    with MetricsWriter(path) as writer:
        with pytest.raises(TypeError):
            writer.write(Sample(1, {"a": 1.0, "b": None}))
        writer.write(Sample(2, {"b": 1.0}))
    assert points(path) == [(2, "b", 1.0)]
    assert query(path, "SELECT step FROM samples") == [(2,)]


def test_what_was_flushed_is_in_the_log_or_the_file_and_was_synced(path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    with MetricsWriter(path) as writer:
        writer.write(sample(1))
        writer.flush()
        assert len(synced) == 2  # the log and the directory that names it


def test_flush_works_while_a_reader_holds_the_log_back(path):
    with MetricsWriter(path) as writer:
        writer.write(sample(1))
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM points").fetchone()
            writer.write(sample(2))
            writer.flush()
            assert reader.execute("SELECT max(step) FROM points").fetchone() == (1,)


def test_a_closed_database_is_one_file(path):
    with MetricsWriter(path) as writer:
        writer.write(sample(1))
    visible = [entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    assert visible == ["metrics.db"]
    assert path.read_bytes()[18:20] == b"\x01\x01"  # SQLite's mark of a file that needs no log to be read


def test_closing_works_while_a_reader_looks(path):
    writer = MetricsWriter(path)
    writer.write(sample(1))
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM points").fetchone()
        writer.close()
    assert len(points(path)) == 2


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4000])
def test_a_damaged_file_is_refused_by_name_and_not_overwritten(path, content):
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"metrics\.db"):
        MetricsWriter(path)
    assert path.read_bytes() == content


def test_sample_ids_count_on_after_a_rewind(path):
    with MetricsWriter(path) as writer:
        for step in (1, 2, 3):
            writer.write(sample(step))
        writer.rewind(1)
        writer.write(sample(2))
    assert query(path, "SELECT id, step FROM samples") == [(1, 1), (4, 2)]


def test_writing_twenty_numbers_costs_a_run_next_to_nothing(path):
    """Below 100 microseconds on a quiet machine; the bound leaves room for a busy one and for slow disks."""
    metrics = {f"losses/{number}": 0.5 for number in range(20)}
    episodes = tuple(EpisodeResult(None, 1.0, 20, terminated=True, env_index=index) for index in range(4))
    with MetricsWriter(path) as writer:
        writer.write(Sample(0, metrics))
        costs = []
        for step in range(1, 300):
            began = time.thread_time()
            writer.write(Sample(step, metrics, episodes=episodes))
            costs.append(time.thread_time() - began)
    assert sorted(costs)[len(costs) // 2] < 400e-6


def test_the_log_can_be_synced_by_another_thread_while_this_one_writes(path, monkeypatch):
    synced, really_sync = [], os.fsync

    def sync(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        really_sync(descriptor)

    with MetricsWriter(path) as writer:
        writer.write(sample(1))
        monkeypatch.setattr("os.fsync", sync)
        writer._connection.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=writer.sync_log)
        thread.start()
        thread.join(30)
        writer._connection.execute("ROLLBACK")
        writer.write(sample(2))
    assert synced == [Path(f"{path}-wal"), path.parent]
    assert [step for step, name, _ in points(path) if name == "losses/a"] == [1, 2]


def test_an_evaluation_that_writes_just_now_is_waited_for(tmp_path, monkeypatch):
    brief = MetricsWriter(tmp_path / "metrics.db")
    looks = []

    def disconnect(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            brief.close()

    monkeypatch.setattr("palaestra.runs.metrics.writer.time.sleep", disconnect)
    with wait_for_writer(tmp_path / "metrics.db"):
        assert len(looks) == 3


def test_it_may_fold_in_what_a_killed_training_left_for_many_seconds_and_the_run_says_so(tmp_path, monkeypatch, caplog):
    now = [0.0]
    brief = MetricsWriter(tmp_path / "metrics.db")

    def a_second_goes_by(_seconds):
        now[0] += 1.0
        if now[0] == 30.0:
            brief.close()

    monkeypatch.setattr("palaestra.runs.metrics.writer.time.monotonic", lambda: now[0])
    monkeypatch.setattr("palaestra.runs.metrics.writer.time.sleep", a_second_goes_by)
    with wait_for_writer(tmp_path / "metrics.db"):
        assert now[0] == 30.0
    (reports,) = caplog.messages
    assert reports.startswith("The run waits for its metrics: ")
    assert f"process {os.getpid()}" in reports


def test_whoever_never_leaves_is_named_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("palaestra.runs.metrics.writer.WAIT_LIMIT_SECONDS", -1.0)
    with MetricsWriter(tmp_path / "metrics.db"), pytest.raises(MetricsInUse, match=f"by process {os.getpid()}"):
        wait_for_writer(tmp_path / "metrics.db")


def test_a_folder_that_cannot_be_written_to_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("palaestra.runs.metrics.writer.time.sleep", lambda _seconds: pytest.fail("it waits"))
    with pytest.raises(UsageError, match="cannot be opened"):
        wait_for_writer(tmp_path / "gone" / "metrics.db")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("palaestra.runs.metrics.writer.BUSY_SECONDS", 0.01)


def test_somebody_who_reads_all_of_a_finished_file_is_waited_for(path, impatient, monkeypatch):
    MetricsWriter(path).close()
    looks = []
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN").execute("SELECT count(*) FROM samples").fetchone()

        def disconnect(seconds):
            looks.append(seconds)
            if len(looks) == 2:
                reader.execute("COMMIT")

        monkeypatch.setattr("palaestra.runs.metrics.writer.time.sleep", disconnect)
        with wait_for_writer(path) as writer:
            writer.write(Sample(1, {"loss": 1.0}))
    assert len(looks) == 2
    assert query(path, "SELECT count(*) FROM samples") == [(1,)]


def test_a_file_in_use_is_not_called_damaged(path, impatient):
    MetricsWriter(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN").execute("SELECT count(*) FROM samples").fetchone()
        with pytest.raises(MetricsInUse, match="is in use"):
            MetricsWriter(path)


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_an_external_policy_adds_to_the_file_and_leaves_its_kind(path, mode):
    MetricsWriter(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    with MetricsWriter(path, is_secondary=True) as guest:
        guest.write(Sample(7, {"eval": 2.0}))
    assert query(path, "PRAGMA journal_mode") == [(mode,)]
    assert query(path, "SELECT step FROM samples") == [(7,)]
