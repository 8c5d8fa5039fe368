from __future__ import annotations

import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics.curve_cache import CurveCache
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.web.resources.series_refresh import SeriesRefresher, cache_directory, series_cache


@pytest.fixture
def refresher(daemon):
    return SeriesRefresher(daemon, CurveCache(cache_directory(daemon)))


def write(directory, step=1):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(step, {"a": 1.0}))


def test_series_are_cached_before_the_first_request(daemon, make_run, refresher):
    directory = make_run("first")
    write(directory)
    make_run("without metrics".replace(" ", "-"))
    refresher.refresh_changed()
    assert (cache_directory(daemon) / directory.id / "index.json").exists()


def test_an_unchanged_run_is_not_refreshed_again(daemon, make_run, refresher, monkeypatch):
    write(make_run("first"))
    refresher.refresh_changed()
    monkeypatch.setattr(CurveCache, "refresh", lambda *_: pytest.fail("it was looked at again"))
    refresher.refresh_changed()


def test_the_series_of_a_removed_run_are_removed(daemon, make_run, refresher):
    directory = make_run("first")
    write(directory)
    refresher.refresh_changed()
    daemon._run_table.remove(directory.id)
    refresher.refresh_changed()
    assert list(cache_directory(daemon).iterdir()) == []


def test_stale_series_of_an_earlier_daemon_are_removed(daemon, refresher):
    left = cache_directory(daemon) / "01HX0000000000000000000000"
    left.mkdir(parents=True)
    (left / "0.points").write_bytes(b"x")
    refresher.stop()
    refresher.run()
    assert not left.exists()


def test_damaged_metrics_do_not_stop_the_refresher(daemon, make_run, refresher):
    make_run("broken").metrics_file.write_bytes(b"x" * 5000)
    directory = make_run("first")
    write(directory)
    refresher.refresh_changed()
    assert (cache_directory(daemon) / directory.id / "index.json").exists()


def test_an_app_context_has_one_series_cache(context):
    assert series_cache(context) is series_cache(context)


def test_the_refresher_runs_during_the_lifespan(client, context, make_run):
    directory = make_run("first")
    write(directory)
    assert client.get("/api/runs/first/metrics").json()["names"] == ["a"]
    assert (cache_directory(context.daemon) / directory.id).is_dir()
