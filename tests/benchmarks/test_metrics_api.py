from __future__ import annotations

import json
import sys

import metrics_api

from palaestra.runs.metrics.reader import MetricsReader


def test_the_runs_it_makes_have_the_points_that_were_requested(tmp_path):
    metrics_api.make_run(tmp_path / "run", names=3, samples=40, seed=1)
    with MetricsReader(tmp_path / "run" / "metrics.db") as reader:
        assert reader.names() == ["curve/0", "curve/1", "curve/2"]
        assert [len(reader.series(name)) for name in reader.names()] == [40, 40, 40]
        assert reader.newest_sample() == 40


def test_it_measures_and_takes_its_runs_away_again(tmp_path, monkeypatch, capsys):
    root, results = tmp_path / "runs", tmp_path / "results.json"
    flags = ["--runs", "2", "--points", "4000", "--names", "4", "--root", str(root), "--json", str(results)]
    monkeypatch.setattr(sys, "argv", ["metrics_api.py", *flags])
    metrics_api.main()
    assert not root.exists()
    found = json.loads(results.read_text())
    assert (found["runs"], found["points of each run"], found["points of each curve"]) == (2, 4000, 1000)
    assert all(wall > 0 for wall, _ in found["timings"].values())
    assert "| 20 runs x 1 name |" in capsys.readouterr().out
