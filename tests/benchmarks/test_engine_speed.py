import json
import sys

import engine_speed
import pytest

from palaestra.config.train import TrainConfig
from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.training.engines import native_engine
from palaestra.training.state import new_training_state


@pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")
def test_it_reports_what_both_engines_do(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(engine_speed, "gemm_peak", lambda threads: 100.0)
    out = tmp_path / "speed.json"
    arguments = ["engine_speed.py", "--steps", "2048", "--repeats", "1", "--sizes", "small", "--ways", "loop", "--out"]
    monkeypatch.setattr(sys, "argv", [*arguments, str(out)])
    assert engine_speed.main() == 0
    reports = json.loads(out.read_text())["figures"]
    assert {figure["engine"] for figure in reports} == {"native", "torch"}
    assert all(figure["steps_per_second"] > 0 and figure["gflops"] > 0 for figure in reports)
    assert "| small | loop | 1 | native |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")
def test_a_users_training_is_timed_in_a_process_of_its_own():
    settings = {"engine": "native", "torch_threads": 1, "total_steps": 2048, "ppo": engine_speed.SIZES["small"]}
    figure = engine_speed.user("native", "small", 1, settings)
    assert (figure.way, figure.gflops) == ("user", 0.0)
    assert 0 < figure.steps_per_second < 1e7
    assert 0 < figure.steps_per_cpu_second < 1e7


def test_the_arithmetic_is_counted_layer_by_layer():
    state = new_training_state(TrainConfig(ppo={"env_count": 1, "horizon": 8, "minibatch_size": 8}))
    hidden, action, value = 4 * 64, 64 * 2, 64
    forward = 2 * (2 * hidden + 2 * 64 * 64 + action + value)
    assert engine_speed.flop_per_sample(state) == 3 * forward - 2 * 2 * hidden  # the first layers pass nothing back


def test_an_update_was_finished_when_the_metrics_say_so(tmp_path):
    with MetricsWriter(tmp_path / "metrics.db") as writer:
        writer.write(Sample(256, {"a": 1.0}, at=1000.5), Sample(512, {"a": 1.0}, at=1000.7))
    assert engine_speed.first_sample_at(tmp_path) == 1000.5
