import math
import sys

import engine_learning
import pytest


def test_engines_take_turns_seed_by_seed_and_get_a_row_each(monkeypatch, capsys):
    asked = []

    def pretend(recipe, engine, seed, settings):
        asked.append((recipe, engine, seed))
        return 100.0 + seed

    monkeypatch.setattr(engine_learning, "trained", pretend)
    monkeypatch.setattr(sys, "argv", ["engine_learning.py", "--recipes", "cartpole", "--seeds", "1", "2", "3"])
    assert engine_learning.main() == 0
    assert asked[:3] == [("cartpole", "torch", 1), ("cartpole", "native", 1), ("cartpole", "torch", 2)]
    assert "| cartpole | native | 102.00 | 2.48 | 101.0, 102.0, 103.0 |" in capsys.readouterr().out


def test_the_interval_is_students():
    five = engine_learning.Outcome("a", "torch", [1.0, 2.0, 3.0, 4.0, 5.0])
    assert five.half_width == pytest.approx(2.776 * math.sqrt(2.5 / 5), rel=2e-3)
    assert engine_learning.Outcome("a", "torch", [1.0]).half_width == math.inf
