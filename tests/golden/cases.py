"""Short runs whose results must not change unless somebody means it: what is started, and what it leaves behind.

A fingerprint is read with safetensors and sqlite3 alone, so that no code of ours that is being changed reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

HERE = Path(__file__).parent
RECORDED = HERE / "results.json"
SCRIPT = HERE.parent / "apps" / "scripts" / "scripts" / "ppo.py"
LIMIT_SECONDS = 300.0
CELL = """schema_version: 1
summary: a small {kind}
nodes:
  input:  {{type: vector, source: observation}}
  memory: {{type: {kind}, source: input, size: 16}}
  action: {{type: action_head, source: memory}}
  value:  {{type: value_head, source: memory}}
"""
POINTS = """
SELECT step, names.name, value FROM points JOIN names ON names.id = points.name WHERE reproducible ORDER BY 1, 2
"""
EPISODES = """
SELECT env_step, env_index, seed, total_reward, length, terminated FROM episodes ORDER BY env_step, env_index
"""
WORLD = (
    "agents: 2, width: 7, height: 7, view: 5, max_steps: 13, mine: {count: 1}, generator: {count: 1}, altar: {count: 1}"
)
CARTPOLE = ["cartpole", "ppo.env_count=4", "ppo.horizon=16", "ppo.minibatch_size=32", "total_steps=1024"]
ARENA = [
    "arena.tiny",
    f"env.kwargs={{{WORLD}}}",
    "ppo.env_count=8",
    "ppo.horizon=8",
    "ppo.minibatch_size=32",
    "total_steps=512",
]
MEMORY = [*CARTPOLE, "ppo.segment_length=8"]
NORMALIZED = ["policy.normalize_observations=true", "policy.normalize_returns=true"]


@dataclass(frozen=True)
class Case:
    """One `palaestra train` and, where several commands make one result, those before and after it."""

    words: list[str]
    before: list[list[str]] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)
    is_killed: bool = False  # once, with SIGKILL, after a checkpoint; then continued
    verb: str = "train"


def train(*words: str, **more: Any) -> Case:
    return Case(list(words), **more)


CASES: dict[str, Case] = {
    "mlp, native engine": train(*CARTPOLE, *NORMALIZED, "engine=native"),
    "mlp, torch engine": train(*CARTPOLE, *NORMALIZED, "engine=torch"),
    "continuous actions, native engine": train("pendulum", "total_steps=2048", "engine=native"),
    "mujoco, native engine": train(
        "halfcheetah", "total_steps=1024", "ppo.horizon=128", "ppo.env_count=4", "engine=native"
    ),
    "lstm, native engine": train(*MEMORY, "policy.graph=lstm.yaml", "engine=native"),
    "lstm, torch engine": train(*MEMORY, "policy.graph=lstm.yaml", "engine=torch"),
    "gru, native engine": train(*MEMORY, "policy.graph=gru.yaml", "engine=native"),
    "mingru, native engine": train(*MEMORY, "policy.graph=mingru.yaml", "engine=native"),
    "attention": train(
        *ARENA, f"env.kwargs={{{WORLD}, observation: tokens}}", "policy.graph=attention", "policy.settings.size=16"
    ),
    "arena, native engine": train(*ARENA, "engine=native"),
    "arena, torch engine": train(*ARENA, "policy.settings.size=16", "engine=torch"),
    "curriculum": train(
        *CARTPOLE,
        "curriculum.tasks={short: {kwargs: {sutton_barto_reward: true}}, long: {weight: 2}}",
        "curriculum.kind=learning_progress",
    ),
    "kickstart": train(
        *CARTPOLE,
        "ppo.kickstart.teacher=teacher:latest",
        before=[["train", *CARTPOLE, "seed=9", "run=teacher", "--quiet"]],
    ),
    "vtrace": train(*CARTPOLE, "ppo.vtrace.enabled=true"),
    "prioritized segments": train(*MEMORY, "ppo.prioritized.enabled=true"),
    "muon": train(*CARTPOLE, "ppo.optimizer.kind=muon"),
    "schedules and regularizers": train(
        *CARTPOLE,
        "ppo.clip.kind=linear",
        "ppo.regularize.l2_init=0.01",
        "ppo.optimizer.weight_decay=0.01",
        "engine=torch",
    ),
    "two ranks, native engine": train(*CARTPOLE, "engine=native", "--nproc", "2"),
    "two ranks over gloo": train(*CARTPOLE, "engine=torch", "distributed.backend=gloo", "--nproc", "2"),
    "killed and continued": train(
        *CARTPOLE, *NORMALIZED, "total_steps=32768", "engine=native", "checkpoints.save_interval=16", is_killed=True
    ),
    "evaluation of a suite": train(
        *CARTPOLE,
        "evaluation.simulations={usual: {}, short: {category: short, env: {max_episode_steps: 50}}}",
        "evaluation.episodes=5",
        after=[["eval", "golden", "--json"]],
    ),
    "discovery by flips": Case(["2x2x3", "field=gf2", "target=11", "seconds=60", "seed=3"], verb="discover"),
    "discovery by an agent": Case(
        ["2x2x2", "method=agent", "target=0", "seconds=1e-9", "agent.warmup=2", "agent.device=cpu"], verb="discover"
    ),
    "script": Case(["cleanrl", f"script={SCRIPT}", "total_timesteps=512", "num_envs=2", "torch_deterministic=true"]),
}


def processor() -> str:
    """Sums are taken in another order on another family of processors."""
    vendor = next(
        (line.split()[-1] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("vendor_id")),
        "",
    )
    release = torch.__version__.partition("+")[0]
    return f"{platform.machine()} {vendor} {torch.backends.cpu.get_cpu_capability()}, torch {release}"


def play(case: Case, folder: Path) -> dict[str, Any]:
    """Runs it in an empty folder; the fingerprint of what it leaves there."""
    for kind in ("lstm", "gru", "mingru"):
        (folder / f"{kind}.yaml").write_text(CELL.format(kind=kind))
    own = [case.verb, *last_of_each_key(case.words), "run=golden", "--quiet"]
    if case.is_killed:
        kill_after_a_checkpoint(own, folder)
    for words in (*case.before, own, *case.after):
        command(words, folder)
    return fingerprint(folder)


def last_of_each_key(words: list[str]) -> list[str]:
    return list(
        {
            word.partition("=")[0] if "=" in word else word + str(location): word for location, word in enumerate(words)
        }.values()
    )


def command(words: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "palaestra", *words],
        **surroundings(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode in (0, 5), f"{words}: exit code {done.returncode}\n{done.stderr}"


def surroundings(folder: Path) -> dict[str, Any]:
    stored = {name: value for name, value in os.environ.items() if not name.startswith("PALAESTRA_")}
    own = {
        "PALAESTRA_RUNS_DIR": str(folder / "runs"),
        "PALAESTRA_HOME": str(folder / "home"),
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
    }
    return {"cwd": folder, "env": {**stored, **own}}


def kill_after_a_checkpoint(words: list[str], folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "palaestra", *words], **surroundings(folder), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + LIMIT_SECONDS
    while process.poll() is None and not list((folder / "runs").glob("*/checkpoints/model_*.yaml")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"


def fingerprint(folder: Path) -> dict[str, Any]:
    directory = (folder / "runs" / "by-name" / "golden").resolve()
    found: dict[str, Any] = {}
    weights = sorted((directory / "checkpoints").glob("model_*.safetensors"))
    if weights:
        found["weights"] = hash_of_weights(weights[-1])
    if (directory / "metrics.db").exists():
        found["metrics"] = hash_of_metrics(directory / "metrics.db")
    if (directory / "eval_summary.json").exists():
        batches = json.loads((directory / "eval_summary.json").read_text())["batches"]
        found["evaluations"] = [[batch["episodes"], batch["mean"], batch["min"], batch["max"]] for batch in batches]
    schemes = sorted(path.stem for path in (folder / "runs" / "discoveries").glob("*.json"))
    if schemes:
        found["schemes"] = schemes  # their names end in a hash of the factors, which discoveries verify
    return found


def hash_of_weights(path: Path) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(load_file(path).items()):
        digest.update(f"{name} {value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def hash_of_metrics(path: Path) -> str:
    """Points and episodes, less what is a timing."""
    digest = hashlib.sha256()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        for query in (POINTS, EPISODES):
            for row in database.execute(query):
                digest.update(repr(row).encode())
    return digest.hexdigest()
