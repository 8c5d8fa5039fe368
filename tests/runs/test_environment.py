from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.metadata import distributions, version
from pathlib import Path

import pytest

from palaestra.runs import environment
from palaestra.runs.environment import describe_environment, describe_git, installed_version, platform_name


def git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(directory), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_it_says_on_what_a_run_was_made():
    found = json.loads(json.dumps(describe_environment()))
    assert found["packages"]["numpy"] == version("numpy")
    assert found["packages"]["torch"] == version("torch")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["hardware"]["memory_bytes"] > 1 << 28
    assert found["hardware"]["threads"] == os.cpu_count()
    assert found["argv"] == sys.argv


def test_the_platform_is_named_without_starting_a_process(monkeypatch):
    def refuse(*_arguments, **_keywords):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    name = platform_name()
    system = os.uname()
    assert name.startswith(f"{system.sysname}-{system.release}-{system.machine}-with-")
    assert name.endswith("".join(os.confstr("CS_GNU_LIBC_VERSION").split()))


def test_a_version_is_what_python_itself_says_of_every_package_here():
    names = {one.metadata["Name"] for one in distributions()}
    assert len(names) > 20
    assert {name: installed_version(name) for name in names} == {name: version(name) for name in names}


def test_a_package_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(environment, "PACKAGES", ("numpy", "no-such-package-of-ours"))
    assert list(environment.package_versions.__wrapped__()) == ["numpy"]


def test_nothing_heavy_is_imported_for_it():
    code = (
        "import sys; from palaestra.runs.environment import describe_environment; describe_environment();"
        "print([name for name in ('torch', 'gymnasium', 'numpy', 'safetensors') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_it_is_quick():
    describe_environment()
    began = time.perf_counter()
    describe_environment()
    assert time.perf_counter() - began < 0.15


def test_the_commit_and_whether_files_were_changed_since(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-qm", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert describe_git(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "a").write_text("2")
    assert describe_git(tmp_path) == {"commit": commit, "dirty": True}


def test_outside_of_a_repository_there_is_no_commit(tmp_path):
    assert describe_git(tmp_path) is None


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_git(Path.cwd()) is None


@pytest.mark.parametrize(
    ("script", "expected"),
    [("echo 'A100, 80 GB'", ["A100, 80 GB"]), ("exit 9", []), ("sleep 60", [])],
    ids=["answers", "fails", "hangs"],
)
def test_gpus_are_asked_for_but_a_broken_driver_is_no_obstacle(tmp_path, monkeypatch, script, expected):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(environment, "GPU_SECONDS", 0.3)
    assert describe_environment()["hardware"]["gpus"] == expected


def test_only_harmless_variables_are_kept(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("WANDB_API_KEY", "hush-hush")
    text = json.dumps(describe_environment())
    assert '"OMP_NUM_THREADS": "3"' in text
    assert "hush-hush" not in text
