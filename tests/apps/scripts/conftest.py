import json
import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import pytest
import torch

from palaestra.apps.scripts.checkpoints import CheckpointImporter
from palaestra.apps.scripts.kind import KIND, PLAIN_KIND
from palaestra.apps.scripts.launch import read_launch_spec
from palaestra.apps.scripts.launcher import excerpt, rebuild, snapshot
from palaestra.apps.scripts.metrics import ScriptMetrics
from palaestra.core.clock import SystemClock
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import Resources
from palaestra.runner.session import RunSession
from palaestra.runs.store import RunStore

SCRIPTS = Path(__file__).parent / "scripts"
STAND_INS = Path(__file__).parent / "stand_ins"


@dataclass(frozen=True)
class Runs:
    """Makes runs of scripts as a daemon or the command line does."""

    store: RunStore

    def make(self, script, kind="cleanrl", **config):
        maker = {"cleanrl": KIND, "script": PLAIN_KIND}[kind]
        request = RunRequest(kind, "", {"script": str(script), **config})
        prepared = maker.prepare(request, Resources(1), self.store.root)
        return self.store.create(prepared.request, prepared.config, total_steps=prepared.total_steps)

    def saved(self, script, stored, **config):
        """A run of it that has saved what is among the globals `kept`, without the time to train."""
        directory = self.make(script, **config)
        spec = read_launch_spec(directory)
        tensors, classes = snapshot.collect_tensors(stored)
        source = Path(script).read_text()
        notes = {
            "script": Path(script).name,
            "sha256": spec.sha256,
            "source": source,
            "args": json.dumps(spec.settings),
            "classes": json.dumps(classes),
            "env_id": "",
        }
        path = directory.path / "made.safetensors"
        snapshot.write(path, tensors, notes)
        session = RunSession(directory, 0, SystemClock())
        assert CheckpointImporter(session, spec, ScriptMetrics()).commit(path, 100) is not None
        session.finished()
        return directory


@pytest.fixture
def runs(tmp_path):
    return Runs(RunStore(tmp_path / "store"))


@pytest.fixture
def scripts():
    return SCRIPTS


@pytest.fixture
def jax_stand_in(monkeypatch):
    """A small jax, flax and optax for this process and for those that it starts; gone afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(STAND_INS))
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS), prepend=os.pathsep)
    yield STAND_INS
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"jax", "flax", "optax"}:
            del sys.modules[name]


@pytest.fixture
def definitions(monkeypatch):
    """The classes and functions of a script, with its arguments and a vector environment among its globals."""
    monkeypatch.setitem(sys.modules, "tyro", types.ModuleType("tyro"))

    def load(path, classes, **arguments):
        monkeypatch.setitem(sys.modules, excerpt.NAME, types.ModuleType(excerpt.NAME))
        script = excerpt.load_excerpt(path.read_bytes(), str(path), classes)
        rebuild.set_globals(script, types.SimpleNamespace(**arguments))
        env = rebuild.make_env(script, script.args, 0)
        rebuild.set_environments(script, env, gymnasium.vector.SyncVectorEnv([lambda: env]))
        return script

    return load


@pytest.fixture
def ppo_agent(definitions):
    """A network of the test's own PPO script, with weights of its own."""
    script = definitions(SCRIPTS / "ppo.py", {"agent": "Agent"}, env_id="CartPole-v1", capture_video=False, num_envs=2)
    torch.manual_seed(5)
    yield script.Agent(script.envs)
    script.envs.close()
