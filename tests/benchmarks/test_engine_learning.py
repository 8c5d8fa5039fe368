import json
import math
import sys

import engine_learning
import pytest


@pytest.fixture
def requested(monkeypatch):
    """What was trained; nothing is."""
    calls = []

    def pretend(recipe, engine, seed, settings):
        calls.append((recipe, engine, seed))
        return 100.0 + seed

    monkeypatch.setattr(engine_learning, "trained", pretend)
    return calls


def measure(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["engine_learning.py", "--recipes", "cartpole", *arguments])
    assert engine_learning.main() == 0


def test_engines_take_turns_seed_by_seed_and_get_a_row_each(monkeypatch, capsys, requested):
    measure(monkeypatch, "--seeds", "3")
    assert requested[:3] == [("cartpole", "torch", 1), ("cartpole", "native", 1), ("cartpole", "torch", 2)]
    reports = capsys.readouterr().out
    assert "| cartpole | native | 102.00 | 2.48 | 101.0, 102.0, 103.0 |" in reports
    assert "cartpole: the intervals overlap." in reports


def test_what_the_file_has_already_is_not_trained_again(monkeypatch, tmp_path, requested):
    out = tmp_path / "learned.json"
    measure(monkeypatch, "--seeds", "2", "--out", str(out))
    measure(monkeypatch, "--seeds", "3", "--out", str(out))
    assert requested[4:] == [("cartpole", "torch", 3), ("cartpole", "native", 3)]
    measure(monkeypatch, "--seeds", "1", "--out", str(out), "--set", "ppo.gamma=0.9")
    assert len(requested) == 8
    assert len(json.loads(out.read_text())) == 8


def test_the_interval_is_students():
    five = engine_learning.Outcome("a", "torch", [1.0, 2.0, 3.0, 4.0, 5.0])
    assert five.half_width == pytest.approx(2.776 * math.sqrt(2.5 / 5), rel=2e-3)
    assert engine_learning.Outcome("a", "torch", [1.0]).half_width == math.inf


def test_intervals_that_lie_apart_are_reported():
    low = engine_learning.Outcome("a", "torch", [1.0, 1.1, 1.2])
    high = engine_learning.Outcome("a", "native", [9.0, 9.1, 9.2])
    assert not low.overlaps(high)
    assert low.overlaps(engine_learning.Outcome("a", "native", [1.2, 1.3, 1.4]))
    assert "a: the intervals DO NOT overlap." in engine_learning.table([low, high])


def test_one_seed_is_no_comparison():
    alone = engine_learning.Outcome("a", "torch", [1.0])
    assert engine_learning.verdict(alone, alone) == "a: one seed tells nothing."
