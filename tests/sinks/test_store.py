from __future__ import annotations

import sqlite3
from contextlib import closing

from palaestra.sinks.store import MetricsSink

QUERY = "SELECT points.step, names.name, points.value FROM points JOIN names ON names.id = points.name ORDER BY 1, 2"


def points(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(QUERY).fetchall()


def test_what_is_written_is_in_the_database_and_a_rewind_takes_it_back(tmp_path, samples):
    sink = MetricsSink(tmp_path / "metrics.db")
    for sample in samples:
        sink.write(sample)
    sink.rewind(512 * 4)
    sink.flush()
    sink.close()
    expected = sorted(
        (sample.step, name, value)
        for sample in samples[:4]
        for name, value in {**sample.metrics, **sample.timings}.items()
    )
    assert points(tmp_path / "metrics.db") == expected
