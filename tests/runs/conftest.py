from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

REQUEST = RunRequest(
    kind="native",
    recipe="cartpole",
    config={"total_steps": 1000, "ppo": {"gamma": 0.9}},
    submitted_by="cli",
    command="palaestra train cartpole run=a total_steps=1000 ppo.gamma=0.9",
)


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def request_for_a_run() -> RunRequest:
    return REQUEST


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


@pytest.fixture
def directory(store: RunStore) -> RunDirectory:
    return store.create(REQUEST, {"total_steps": 1000, "seed": 1}, "a", 1000)


@pytest.fixture
def start_python():
    """A real second process running `code`; its first line of output is awaited, so that it has really begun."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        process.first_line = process.stdout.readline().strip()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
