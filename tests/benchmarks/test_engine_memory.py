import json
import sys

import engine_memory
import pytest

from palaestra.training.engines import native_engine


@pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")
def test_it_reports_what_both_engines_do_with_a_memory(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(engine_memory.SIZES, "small", (8, {"env_count": 4, "horizon": 16, "minibatch_size": 32}))
    out = tmp_path / "memory.json"
    arguments = ["engine_memory.py", "--steps", "1", "--repeats", "1", "--sizes", "small", "--cells", "mingru", "--out"]
    monkeypatch.setattr(sys, "argv", [*arguments, str(out)])
    assert engine_memory.main() == 0
    reports = json.loads(out.read_text())["figures"]
    assert [figure["engine"] for figure in reports] == ["native", "torch"]
    assert all(figure["steps_per_second"] > 0 for figure in reports)
    assert "| small | mingru | torch |" in capsys.readouterr().out


def test_torch_is_one_times_torch():
    figures = [
        engine_memory.Figure("small", "lstm", engine, speed, 1.0) for engine, speed in (("native", 9), ("torch", 3))
    ]
    lines = engine_memory.table(figures).splitlines()
    assert lines[2].endswith("| 3.0 |")
    assert lines[3].endswith("| 1.0 |")
