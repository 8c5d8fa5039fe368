from __future__ import annotations

import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics.curve_cache import CurveCache
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.web.resources.series_refresh import SeriesRefresher, cache_place, series_cache


@pytest.fixture
def keeper(daemon):
    return SeriesRefresher(daemon, CurveCache(cache_place(daemon)))


def write(directory, step=1):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(step, {"a": 1.0}))


def test_curves_are_laid_out_before_anybody_asks(daemon, make_run, keeper):
    directory = make_run("first")
    write(directory)
    make_run("without metrics".replace(" ", "-"))
    keeper.look()
    assert (cache_place(daemon) / directory.id / "index.json").exists()


def test_a_run_that_says_nothing_new_is_not_looked_at_again(daemon, make_run, keeper, monkeypatch):
    write(make_run("first"))
    keeper.look()
    monkeypatch.setattr(CurveCache, "refresh", lambda *_: pytest.fail("it was looked at again"))
    keeper.look()


def test_a_removed_run_takes_its_curves_along(daemon, make_run, keeper):
    directory = make_run("first")
    write(directory)
    keeper.look()
    daemon._run_table.remove(directory.id)
    keeper.look()
    assert list(cache_place(daemon).iterdir()) == []


def test_what_an_earlier_daemon_left_of_removed_runs_goes(daemon, keeper):
    left = cache_place(daemon) / "01HX0000000000000000000000"
    left.mkdir(parents=True)
    (left / "0.points").write_bytes(b"x")
    keeper.stop()
    keeper.run()
    assert not left.exists()


def test_damaged_metrics_do_not_end_the_keeper(daemon, make_run, keeper):
    make_run("broken").metrics_file.write_bytes(b"x" * 5000)
    directory = make_run("first")
    write(directory)
    keeper.look()
    assert (cache_place(daemon) / directory.id / "index.json").exists()


def test_a_house_has_one_cache(context):
    assert series_cache(context) is series_cache(context)


def test_the_daemon_s_keeper_works_while_the_app_runs(client, context, make_run):
    directory = make_run("first")
    write(directory)
    assert client.get("/api/runs/first/metrics").json()["names"] == ["a"]
    assert (cache_place(context.daemon) / directory.id).is_dir()
