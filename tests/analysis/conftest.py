"""Runs as they lie on disk, written without training and without torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from palaestra.checkpoints.durable import commit
from palaestra.checkpoints.files import model_name
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunRequest
from palaestra.evaluation.summary import append_batch
from palaestra.runs.directory import RunDirectory
from palaestra.runs.files import write_json
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.runs.store import RunStore

NUMBERS = count(1)


@dataclass(frozen=True)
class FakeRun:
    root: Path
    name: str
    directory: RunDirectory

    def save(self, epoch, score=None, weights=b"weights", **changes):
        described = Checkpoint(
            epoch=epoch,
            agent_step=epoch * 100,
            total_time=1.0,
            run=self.directory.id,
            run_name=self.name,
            saved_at=0.0,
            policy={"graph": "mlp"},
            env={"id": "CartPole-v1"},
            interface={},
            score=score,
            seed=7,
            git_commit="abc123",
        )
        return commit(self.directory.checkpoints, epoch, {model_name(epoch): weights}, replace(described, **changes))

    def judge(self, epoch, returns, first_seed=0, simulation=None, category=None, env="CartPole-v1", **plan):
        """As an evaluation writes it down; `returns` in the order of the seeds."""
        number = next(NUMBERS)
        path = self.directory.evaluations / f"{epoch}-{number}.json"
        names = {"simulation": simulation, "category": category}
        written = {
            "env_id": env,
            "env_kwargs": {},
            "max_episode_steps": None,
            "deterministic": True,
            **{key: name for key, name in names.items() if name is not None},
            **plan,
        }
        rows = [{"seed": first_seed + index, "total_reward": value} for index, value in enumerate(returns)]
        write_json(path, {"schema_version": 1, "plan": written, "complete": True, "rows": rows})
        location = f"evaluations/{path.name}"
        append_batch(self.directory, {"epoch": epoch, "file": location, "simulations": [{"file": location}]})
        return path

    def measure(self, metric, points):
        with MetricsWriter(self.directory.metrics_file) as writer:
            for step, value in points:
                writer.write(Sample(step=step, metrics={metric: value}))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def make_run(root):
    """`make_run("first", seed=1)`: an empty run; settings are its config."""

    def make(name, in_root=root, **config):
        request = RunRequest(kind="native", recipe="cartpole", config={})
        return FakeRun(in_root, name, RunStore(in_root).create(request, config=config, name=name))

    return make
