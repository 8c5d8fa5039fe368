from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from palaestra.api import train
from palaestra.core.run import RunState
from palaestra.evaluation.summary import read_batches
from palaestra.rendering.frame_buffer import frame_buffer_path
from palaestra.runs.documents import read_config
from palaestra.runs.journal import Journal
from palaestra.runs.status import read_record, with_state, write_record
from palaestra.runs.store import RunStore
from palaestra.web.resources.run_data import Run, describe_run, describe_runs


def test_a_run_is_described_with_every_field_of_the_schema(context, daemon, make_run):
    make_run("first", config={"seed": 4, "env": {"id": "CartPole-v1"}})
    described = describe_run(context, daemon.get("first"))
    assert set(described) == set(Run.__annotations__)
    assert (described["seed"], described["env"], described["queue_position"]) == (4, "CartPole-v1", None)


def test_progress_is_at_most_1(context, daemon, make_run):
    make_run("first")
    entry = daemon.get("first")

    def progress(step, total):
        record = replace(entry.record, agent_step=step, total_steps=total, state=RunState.RUNNING)
        return describe_run(context, replace(entry, record=record))["progress"]

    assert [progress(5, 10), progress(12, 10), progress(5, 0)] == [0.5, 1.0, None]


def test_the_progress_of_an_evaluation_counts_episodes(context, daemon, make_run):
    make_run("first", kind="evaluate")
    entry = daemon.get("first")

    def progress(running_match, total):
        summary = {"episodes_played": running_match, "episodes_total": total}
        record = replace(entry.record, agent_step=9000, summary=summary)
        return describe_run(context, replace(entry, record=record))["progress"]

    assert [progress(5, 20), progress(20, 20), progress(5, 0)] == [0.25, 1.0, None]


def test_a_finished_run_has_progress_1(context, daemon, make_run):
    make_run("first")
    entry = daemon.get("first")

    def progress(state):
        record = replace(entry.record, agent_step=99, total_steps=100, state=state)
        return describe_run(context, replace(entry, record=record))["progress"]

    assert (progress(RunState.FINISHED), progress(RunState.CANCELLED)) == (1.0, 0.99)


def test_a_run_with_a_frame_buffer_is_live(context, daemon, make_run, tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_FRAME_BUFFERS_DIR", str(tmp_path))
    first, second = make_run("first"), make_run("second")
    frame_buffer_path(first.id).touch()
    described = describe_runs(context, [daemon.get(first.id), daemon.get(second.id)])
    assert [run["is_live"] for run in described] == [True, False]


def fail(directory, reason="it broke"):
    write_record(directory, with_state(read_record(directory), RunState.FAILED, failure=reason))


def test_run_details_contain_request_and_config(client, make_run):
    make_run("first", config={"seed": 1, "ppo": {"gamma": 0.9}})
    shown = client.get("/api/runs/first").json()
    assert shown["request"]["recipe"] == "cartpole"
    assert shown["config"] == {"seed": 1, "ppo": {"gamma": 0.9}}
    assert shown["environment"]["packages"]["palaestra"]
    assert shown["failure"] is None


def test_run_details_contain_disk_use(client, daemon, make_run):
    directory = make_run("first")
    (directory.videos / "long.mp4").write_bytes(bytes(500_000))
    curves = daemon.root / ".palaestra" / "series" / directory.id
    curves.mkdir(parents=True)
    (curves / "0.points").write_bytes(bytes(90_000))
    disk = client.get("/api/runs/first").json()["disk"]
    assert next(iter(disk["parts"])) == "videos"
    assert disk["parts"]["videos"] >= 500_000
    assert disk["parts"]["curves of the daemon"] >= 90_000
    assert disk["bytes"] == sum(disk["parts"].values())


def test_a_failure_contains_cause_signal_and_last_lines(client, daemon, make_run):
    directory = make_run("first")
    fail(directory, "the process was ended by SIGKILL")
    Journal(directory).record("worker.ended", exit_code=137, signal="SIGKILL", cause="", output=[])
    with directory.journal_file.open("a") as journal:
        journal.write("{torn\n")
    directory.output_file().write_bytes(b"one\ntwo \x1b[31mred\xff\n")
    daemon._supervisor.scan_all()
    failure = client.get("/api/runs/first").json()["failure"]
    assert (failure["message"], failure["signal"]) == ("the process was ended by SIGKILL", "SIGKILL")
    assert failure["log_tail"] == ["one", r"two \x1b[31mred\xff"]


def test_unreadable_files_are_null_and_the_rest_is_returned(client, daemon, make_run):
    directory = make_run("first")
    directory.config_file.write_text("a: [")
    directory.request_file.unlink()
    directory.environment_file.write_text(json.dumps([1]) + "x")
    shown = client.get("/api/runs/first").json()
    assert (shown["config"], shown["request"], shown["environment"], shown["command"]) == (None, None, None, "")
    assert shown["run"]["name"] == "first"


SCRIPT = """
from dataclasses import dataclass

@dataclass
class Args:
    seed: int = 3
    env_id: str = "CartPole-v1"

print("it ran")
"""
TINY = {
    "total_steps": 64,
    "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16},
    "loggers": {"tensorboard": False},
}


@pytest.fixture
def queued(client, daemon, tmp_path):
    """queued(kind, **request): the id of a run that waits for ever, because another one has the only slot."""
    client.post("/api/runs", json={"kind": "nap", "config": {"seconds": 600}})

    def submit(kind, config, **request):
        reply = client.post("/api/runs", json={"kind": kind, "config": config, **request})
        assert reply.status_code == 201, reply.text
        return reply.json()["run"]["id"]

    return submit


@contextlib.contextmanager
def in_a_shell(client, daemon, run):
    """The command that the run's page shows, in bash as a person would paste it."""
    command = client.get(f"/api/runs/{run}").json()["command"]
    environment = {
        **os.environ,
        "PALAESTRA_RUNS_DIR": str(daemon.root),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    arguments = ["bash", "-c", f"exec {command}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("native", TINY),
        ("cleanrl", {"env_id": "Acrobot-v1", "seed": 7}),
        ("script", {"env_id": "Acrobot-v1", "seed": 7}),
        ("matmul", {"seconds": 0.2}),
    ],
)
def test_the_command_recreates_the_run_for_every_kind(client, daemon, queued, tmp_path, kind, config):
    if kind in {"cleanrl", "script"}:
        (tmp_path / "my script.py").write_text(SCRIPT)
        config = {**config, "script": str(tmp_path / "my script.py")}
    run = queued(kind, config, name="taken", recipe="cartpole" if kind == "native" else "")
    with in_a_shell(client, daemon, run) as process:
        _, reported = process.communicate(timeout=120)
    assert process.returncode == 0, reported
    made = RunStore(daemon.root).resolve("latest")
    assert made.id != run
    requested = read_config(daemon.directory(run))
    if kind == "native":  # the queued run is not started: its network still follows from the observations
        assert requested["policy"].pop("graph") == "auto"
        requested["policy"]["graph"] = "mlp"
    assert read_config(made) == requested


@pytest.mark.slow
def test_the_command_of_an_evaluation_plays_the_same_batches(client, daemon, queued):
    trained = train("cartpole", run="trained", runs_root=daemon.root, **TINY).directory
    daemon._supervisor.scan_all()
    order = {"selector": "latest", "episodes": 2, "seed": 7, "repeat": True, "deterministic": True}
    run = client.post("/api/runs/trained/evaluate", json=order).json()["run"]["id"]
    with in_a_shell(client, daemon, run) as process:
        assert "eval batch 1 | episodes=2" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, reported = process.communicate(timeout=60)
    assert process.returncode == 130, reported
    assert read_batches(trained)[0]["seed"] == 7


def test_the_command_of_a_clone_does_not_name_its_parent(client, queued):
    run = queued("native", TINY, name="taken", recipe="cartpole")
    clone = client.post(f"/api/runs/{run}/clone", json={}).json()["run"]["id"]
    for shown in (run, clone):
        assert "taken" not in client.get(f"/api/runs/{shown}").json()["command"]
    assert "taken" not in client.get(f"/api/runs/{clone}").json()["request"]["command"]
