"""Every example runs, as a reader would run it, with warnings as errors."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from palaestra.core.run import RunState
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

EXAMPLES = Path(__file__).parents[1] / "examples"
MAX_LINES = 60
LONGER = {"sb3_worker.py": 120}  # a whole worker, for a stranger's trainer

pytestmark = pytest.mark.slow  # each starts a Python with torch


def run_example(name, runs_dir, *words):
    return subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *words],
        env={**os.environ, "PALAESTRA_RUNS_DIR": str(runs_dir), "PYTHONWARNINGS": "error"},
        cwd=runs_dir.parent,
        capture_output=True,
        text=True,
    )


def as_program(notebook, folder):
    """The code of a notebook, cell after cell, as one program."""
    cells = json.loads((EXAMPLES / notebook).read_text())["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")
    program = folder / f"{notebook}.py"
    program.write_text("\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"))
    return program


def output_of(name, runs_dir, *words):
    result = run_example(name, runs_dir, *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_example_is_short_and_is_tested_here():
    tested = set(re.findall(r'"(\w+\.(?:py|ipynb))"', Path(__file__).read_text()))
    found = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(found) | {path.name for path in EXAMPLES.glob("*.ipynb")} == tested
    assert {name: lines for name, lines in found.items() if lines > LONGER.get(name, MAX_LINES)} == {}


def test_training_in_python_and_loading_what_came_of_it(tmp_path):
    text = output_of("train_in_python.py", tmp_path / "runs")
    name, steps = re.match(r"(\S+): (\d+) steps, return \d", text).groups()
    assert int(steps) >= 10_000
    assert f"runs here, newest first: {name}" in text

    played = output_of("load_and_act.py", tmp_path / "runs", f"{name}:latest")
    assert re.search(rf"^{name}:latest, epoch \d+, in CartPole-v1: return \d", played)


def test_the_off_policy_algorithms_train_evaluate_and_act(tmp_path):
    text = output_of("off_policy.py", tmp_path / "runs")
    found = re.findall(r"^(\w+): (\d+) steps, return -?[\d.]+, first action (\S+)", text, re.MULTILINE)
    assert [name for name, _, _ in found] == ["dqn", "pqn", "sac", "td3"]
    assert [int(steps) for _, steps, _ in found] == [2_000, 2_048, 1_000, 1_000]
    assert [action[0] for _, _, action in found][2:] == ["[", "["]


def test_checkpoints_of_a_training_loop_of_ones_own(tmp_path):
    """The loss falls, so the last epoch is the best; what comes back has the very error that it was saved with."""
    text = output_of(as_program("own_training_loop.ipynb", tmp_path), tmp_path / "runs")
    scores = {int(epoch): float(score) for epoch, score in re.findall(r"epoch (\d+): score (-[\d.]+)", text)}
    assert list(scores) == [10, 20, 30, 40, 50]
    epoch, error, resumed = re.search(
        r"best: epoch (\d+), error ([\d.]+), can continue from epoch (\d+)", text
    ).groups()
    assert (int(epoch), int(resumed)) == (max(scores, key=scores.get), 50)
    assert float(error) == pytest.approx(-scores[int(epoch)], abs=2e-4)


@pytest.mark.full
def test_judging_in_python_with_a_suite_beside_a_training_and_after_it(tmp_path):
    text = output_of("judge_in_python.py", tmp_path / "runs")
    assert [int(step) for step in re.findall(r"judged at step (\d+)", text)] == [1280, 2560, 3840, 5120, 6144]
    means = dict(re.findall(r"(plain|short|sutton) +(-?[\d.]+) ±", text))
    assert list(means) == ["plain", "short", "sutton"]
    assert float(means["short"]) <= 100
    score = float(re.search(r"score (-?[\d.]+) over 9 episodes", text)[1])
    assert score == pytest.approx(sum(map(float, means.values())) / 3, abs=0.02)


def test_an_own_environment_is_checked_and_learned(tmp_path):
    text = output_of("own_environment.py", tmp_path / "runs")
    assert "resumes bit for bit" in text
    # Guessing blindly until it is found gives 1 - 0.1 * 7 = 0.3 on average; halving gives about 0.84.
    assert float(re.search(r"over 100 games: (-?[\d.]+)", text)[1]) > 0.6


def test_an_own_policy_is_trained_and_loaded_back(tmp_path):
    text = output_of("own_policy.py", tmp_path / "runs")
    # CartPole: 4 inputs, 2 actions; (4 + 1) * 32 in the trunk, (32 + 1) * (2 + 1) in the heads
    assert f"{5 * 32 + 33 * 3} weights" in text


@pytest.mark.full
def test_two_ways_to_learn_are_judged_and_compared(tmp_path):
    text = output_of(as_program("judge_and_compare.ipynb", tmp_path), tmp_path / "runs")
    assert re.findall(r"^(\S+): [\d.]+, from", text, re.MULTILINE) == [
        f"{way}-{seed}" for way in ("careful", "bold") for seed in (1, 2, 3)
    ]
    for way in ("careful", "bold"):
        value, low, high = map(
            float, re.search(rf"^{way} x3: IQM (\S+), 95 % from (\S+) to (\S+)", text, re.M).groups()
        )
        assert 1 <= low <= value <= high <= 500
    assert 0 <= float(re.search(r"^careful x3 is above bold x3 with probability (\S+)", text, re.M)[1]) <= 1
    assert (tmp_path / "comparison.html").read_text().count("<svg") >= 5
    assert (tmp_path / "bold.mp4").stat().st_size > 1000


STAND_IN = """
class A2C:
    num_timesteps = 0
    logger = type("Logger", (), {"name_to_value": {"train/loss": 0.5}})
    def __init__(self, policy, env, seed, device):
        self.seed = seed
    def learn(self, total, callback):
        for step in range(1, total + 1):
            self.num_timesteps = step
            infos = [{"episode": {"r": 7.0, "l": 10}}] if step % 10 == 0 else [{}]
            if not callback({"self": self, "infos": infos}, {}):
                return
    def save(self, path):
        path.write_text("made up")
"""


@pytest.fixture
def stable_baselines(tmp_path, monkeypatch):
    """The real one where it is installed; else as much of one as a worker sees."""
    if importlib.util.find_spec("stable_baselines3") is None:
        package = tmp_path / "stand_in" / "stable_baselines3"
        package.mkdir(parents=True)
        (package / "__init__").with_suffix(".py").write_text(STAND_IN)
        monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_the_trainer_of_a_stranger_is_a_run_like_any_other(tmp_path, stable_baselines):
    text = output_of("sb3_worker.py", tmp_path / "runs", "algorithm=A2C", "total_timesteps=300")
    run = RunStore(tmp_path / "runs").resolve(text.split()[-1])
    record = read_record(run)
    assert (record.state, record.kind, record.agent_step) == (RunState.FINISHED, "sb3", 300)
    reader = MetricsReader(run.metrics_file)
    episodes = list(reader.episodes())
    reader.close()
    assert len(episodes) > 2
    assert all(episode.total_reward > 0 for episode in episodes)
    assert (run.artifacts / "model.zip").stat().st_size > 0

    refused = run_example("sb3_worker.py", tmp_path / "runs", "algorithm=PPPO")
    assert "PPPO" in refused.stderr


@pytest.mark.full
def test_the_demo_reaches_its_score_and_says_what_to_do_next(tmp_path):
    text = output_of("demo.py", tmp_path / "runs", "total_steps=1.5e6")
    assert "$ palaestra train arena.basic_easy_shaped run=demo-1" in text
    assert int(re.search(r"; (\d+) times\.$", text, re.MULTILINE)[1]) >= 10
    assert "palaestra replay demo-1" in text


@pytest.mark.full
def test_the_demo_fails_when_the_score_is_not_reached_and_can_be_run_again(tmp_path):
    for name in ("demo-1", "demo-2"):
        result = run_example("demo.py", tmp_path / "runs", "total_steps=12288")
        assert result.returncode == 1, result.stdout + result.stderr
        assert "10 times was to be reached" in result.stderr
        assert f"run={name} total_steps=12288" in result.stdout
        assert "What to do next" not in result.stdout


def rows_of(png):
    """Unpacked: another zlib packs the same picture into other bytes."""
    start = png.index(b"IDAT")
    packed = png[start + 4 : start + 4 + int.from_bytes(png[start - 4 : start])]
    return png[: start - 4], np.frombuffer(zlib.decompress(packed), np.uint8).astype(int)


def test_the_picture_in_the_documentation_is_what_the_code_draws(tmp_path):
    output_of("draw_arena.py", tmp_path / "runs", str(tmp_path / "arena.png"))
    drawn, shown = (tmp_path / "arena.png").read_bytes(), (EXAMPLES.parent / "docs/images/arena.png").read_bytes()
    assert rows_of(drawn)[0] == rows_of(shown)[0]
    differences = np.abs(rows_of(drawn)[1] - rows_of(shown)[1])
    assert differences.max() <= 1, "draw it anew: python examples/draw_arena.py docs/images/arena.png"
    assert len(shown) < 40_000
