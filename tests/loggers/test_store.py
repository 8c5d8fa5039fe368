from __future__ import annotations

import sqlite3
from contextlib import closing

from palaestra.core.errors import RunFailed
from palaestra.loggers.store import WRITE_SECONDS, MetricsStoreLogger
from palaestra.runs.metrics.writer import MetricsWriter

QUERY = "SELECT points.step, names.name, points.value FROM points JOIN names ON names.id = points.name ORDER BY 1, 2"


def points(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(QUERY).fetchall()


def test_what_is_written_is_in_the_database_and_a_rewind_takes_it_back(tmp_path, samples):
    logger = MetricsStoreLogger(tmp_path / "metrics.db")
    for sample in samples:
        logger.write(sample)
    logger.rewind(512 * 4)
    logger.flush()
    logger.close()
    expected = sorted(
        (sample.step, name, value)
        for sample in samples[:4]
        for name, value in {**sample.metrics, **sample.timings}.items()
    )
    assert points(tmp_path / "metrics.db") == expected


def test_samples_wait_in_order_while_the_disk_is_full_and_none_is_lost(tmp_path, samples, monkeypatch, caplog):
    really_write = MetricsWriter.write
    is_full = False

    def write(self, *waiting):
        if is_full:
            raise RunFailed("no space left")
        really_write(self, *waiting)

    monkeypatch.setattr(MetricsWriter, "write", write)
    monkeypatch.setattr("palaestra.loggers.store.WRITE_SECONDS", 0.0)
    logger = MetricsStoreLogger(tmp_path / "metrics.db")
    for number, sample in enumerate(samples):
        is_full = 1 <= number <= 3
        logger.write(sample)
    logger.close()
    steps = {step for step, _, _ in points(tmp_path / "metrics.db")}
    assert steps == {sample.step for sample in samples}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_could_never_be_written_is_counted_at_the_end(tmp_path, samples, monkeypatch, caplog):
    def write(self, *waiting):
        raise RunFailed("no space left")

    monkeypatch.setattr(MetricsWriter, "write", write)
    logger = MetricsStoreLogger(tmp_path / "metrics.db")
    for sample in samples:
        logger.write(sample)
    logger.close()
    assert f"{len(samples)} samples could not be written" in caplog.text


def test_the_first_sample_is_there_at_once_and_those_of_the_same_moment_wait_for_each_other(
    tmp_path, samples, monkeypatch
):
    transactions, moment = [], 100.0
    really_write = MetricsWriter.write

    def write(self, *waiting):
        transactions.append([sample.step for sample in waiting])
        really_write(self, *waiting)

    monkeypatch.setattr(MetricsWriter, "write", write)
    monkeypatch.setattr("palaestra.loggers.store.time.monotonic", lambda: moment)
    logger = MetricsStoreLogger(tmp_path / "metrics.db")
    for sample in samples[:3]:
        logger.write(sample)
    moment += WRITE_SECONDS
    for sample in samples[3:5]:
        logger.write(sample)
    logger.flush()
    steps = [sample.step for sample in samples]
    assert transactions == [steps[:1], steps[1:4], steps[4:5]]
    assert {step for step, _, _ in points(tmp_path / "metrics.db")} == set(steps[:5])
    logger.close()


def test_a_flush_in_two_parts_hands_on_what_waits_and_syncs_later(tmp_path, samples, monkeypatch):
    synced = []
    monkeypatch.setattr(MetricsWriter, "sync_log", lambda self: synced.append("log"))
    logger = MetricsStoreLogger(tmp_path / "metrics.db")
    for sample in samples[:3]:
        logger.write(sample)
    finish = logger.begin_flush()
    assert {step for step, _, _ in points(tmp_path / "metrics.db")} == {sample.step for sample in samples[:3]}
    assert synced == []
    finish()
    assert synced == ["log"]
    logger.close()


def test_a_log_that_cannot_be_synced_is_a_warning_and_no_more(tmp_path, samples, monkeypatch, caplog):
    def refuse(self):
        raise RunFailed("input/output error")

    monkeypatch.setattr(MetricsWriter, "sync_log", refuse)
    logger = MetricsStoreLogger(tmp_path / "metrics.db")
    logger.write(samples[0])
    logger.begin_flush()()
    logger.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
