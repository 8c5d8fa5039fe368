"""The comparison is only worth its name while both sides have the same settings."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from palaestra.config.train import TrainConfig

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sb3_cartpole.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("sb3_cartpole", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(side, seed, speed, score):
    return {
        "side": side,
        "seed": seed,
        "steps_per_second": speed,
        "steps_per_cpu_second": 2 * speed,
        "training_return": score,
        "evaluation_return": score + 1,
    }


def settings_of_theirs() -> dict[str, object]:
    """The arguments that the script hands to Stable-Baselines3, read from its source: it need not be installed."""
    calls = [node for node in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if ast.unparse(node.func) == "PPO"]
    envs = {keyword.arg: ast.unparse(keyword.value) for keyword in call.args[1].keywords}
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords} | {"n_envs": envs["n_envs"]}


def test_both_sides_have_the_same_settings():
    config = TrainConfig()
    ppo, theirs = config.ppo, settings_of_theirs()
    assert config.env.id == "CartPole-v1"
    assert config.torch_threads == 1
    ours = {
        "n_envs": ppo.env_count,
        "n_steps": ppo.horizon,
        "batch_size": ppo.minibatch_size,
        "n_epochs": ppo.update_epochs,
        "gamma": ppo.gamma,
        "gae_lambda": ppo.gae_lambda,
        "clip_range": ppo.clip.start,
        "clip_range_vf": ppo.clip.start,
        "ent_coef": ppo.entropy_coefficient.start,
        "vf_coef": ppo.value_coefficient,
        "max_grad_norm": ppo.max_grad_norm,
    }
    assert {name: float(theirs[name]) for name in ours} == ours
    assert theirs["learning_rate"] == f"lambda share_left: {ppo.learning_rate.start!r} * share_left"
    assert (ppo.learning_rate.kind, ppo.learning_rate.end) == ("linear", 0.0)
    assert (ppo.clip.kind, ppo.entropy_coefficient.kind, ppo.clip_value_loss) == ("constant", "constant", True)


def test_medians_over_seeds_and_ours_over_theirs(bench):
    ours, theirs = bench.SIDES
    rows = [row(ours, seed, speed, 400) for seed, speed in enumerate((900, 300, 600))]
    rows += [row(theirs, seed, speed, 300) for seed, speed in enumerate((100, 200, 999))]
    summary = bench.summarize(rows)
    assert summary["medians"][ours]["steps_per_second"] == 600
    assert summary["medians"][theirs]["steps_per_cpu_second"] == 400
    assert summary["ratios"] == {"steps_per_second": 3.0, "steps_per_cpu_second": 3.0}


def test_the_page_shows_every_seed_and_the_ratio(bench):
    rows = [row(side, 1, speed, 450.0) for side, speed in zip(bench.SIDES, (750, 250), strict=True)]
    machine = dict.fromkeys(("cpu", "cores", "palaestra", "stable_baselines3", "torch"), "?") | {"load_before": 0.1}
    data = {"date": "2026-01-02", "steps": 4096, "seeds": 1, "machine": machine, "rows": rows}
    text = bench.page({**data, "summary": bench.summarize(rows)})
    assert "| palaestra | 1 | 750 | 1,500 | 450.0 | 451.0 |" in text
    assert "**3.00** in steps per second" in text
