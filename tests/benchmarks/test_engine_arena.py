import json
import sys

import engine_arena
import pytest

from palaestra.training.engines import native_engine


@pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")
def test_it_reports_what_in_both_directions_of_stepping_do(monkeypatch, tmp_path, capsys):
    out = tmp_path / "arena.json"
    arguments = ["--iterations", "1", "--repeats", "2", "--threads", "1", "--recipes", "arena.tiny", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["engine_arena.py", *arguments])
    assert engine_arena.main() == 0
    reports = json.loads(out.read_text())["figures"]
    assert [figure["way"] for figure in reports] == ["inside", "from Python"]
    assert all(figure["played_per_cpu_second"] > figure["steps_per_cpu_second"] > 0 for figure in reports)
    assert "| arena.tiny | 1 | from Python |" in capsys.readouterr().out


def test_a_figure_is_the_median_of_its_blocks():
    blocks = [engine_arena.Figure("arena.tiny", 1, "inside", speed, 2 * speed, 3 * speed) for speed in (9, 1, 2)]
    assert engine_arena.middle(blocks) == engine_arena.Figure("arena.tiny", 1, "inside", 2, 4, 6)
