import json
import sys

import engine_ranks
import pytest

from palaestra.training.engines import native_engine


@pytest.mark.slow
@pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")
def test_it_trains_on_one_rank_and_on_two_and_fails_below_the_ratio_requested(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(engine_ranks, "compile_ours", lambda: None)
    out = tmp_path / "ranks.json"
    arguments = [
        "--tasks",
        "cartpole-small",
        "--rounds",
        "1",
        "--share",
        "0.005",
        "--at-least",
        "1000",
        "--out",
        str(out),
    ]
    monkeypatch.setattr(sys, "argv", ["engine_ranks.py", *arguments])
    assert engine_ranks.main() == 1
    figures = json.loads(out.read_text())["figures"]
    assert [figure["ranks"] for figure in figures] == [1, 2]
    assert all(figure["training"] > figure["command"] > 0 for figure in figures)
    assert "| cartpole-small |" in capsys.readouterr().out


def test_a_ratio_is_the_median_of_those_within_a_round():
    pairs = [(100, 150), (200, 360), (50, 80)]  # 1.5, 1.8, 1.6
    rounds = [
        {
            ("arena", ranks): engine_ranks.Figure("arena", ranks, speed, speed)
            for ranks, speed in zip((1, 2), pair, strict=True)
        }
        for pair in pairs
    ]
    reports = engine_ranks.compare("arena", 2, rounds)
    assert (reports["training_ratio"], reports["lowest"], reports["highest"]) == (1.6, 1.5, 1.8)
    assert "| arena | 100 | 150 | 1.60 | 1.50 to 1.80 | 1.60 |" in engine_ranks.table([reports], 2)
