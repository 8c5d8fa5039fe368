from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import distributions, version
from pathlib import Path

import pytest

import palaestra
from palaestra.runs import environment
from palaestra.runs.environment import (
    code_identity,
    code_of_process,
    combine,
    compare_code,
    describe_differences,
    describe_environment,
    describe_git,
    differences,
    installed_version,
    module_files,
    modules_hash,
    package_files,
    package_hash,
    platform_name,
    version_differences,
)


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
def test_gpus_are_requested_but_a_broken_driver_is_no_obstacle(tmp_path, monkeypatch, script, expected):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(environment, "GPU_SECONDS", 0.3)
    assert describe_environment()["hardware"]["gpus"] == expected


def test_only_harmless_variables_are_stored(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("WANDB_API_KEY", "hush-hush")
    text = json.dumps(describe_environment())
    assert '"OMP_NUM_THREADS": "3"' in text
    assert "hush-hush" not in text


HASH_SECONDS = 0.5  # of work; measured: 0.012 s on an idle machine


def test_every_source_and_compiled_file_counts_with_its_own_bytes():
    root = Path(palaestra.__file__).parent
    on_disk = {path for path in root.rglob("*") if path.suffix in {".py", ".so", ".pyd"}}
    files = package_files()
    assert {root / name for name in files} == on_disk
    name = "runs/environment.py"
    assert hashlib.sha256((root / name).read_bytes()).hexdigest().startswith(files[name])


def test_another_process_with_the_same_files_has_the_same_hash():
    code = "from palaestra.runs.environment import package_hash; print(package_hash())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == package_hash()


def test_hashing_the_package_is_cheap_enough_for_every_command():
    package_files.cache_clear()
    began = time.process_time()
    package_files()
    assert time.process_time() - began < HASH_SECONDS


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """`maze`, a file that imports its neighbour `physics`; `games`, a package; `other`, which nobody imports."""
    (tmp_path / "maze.py").write_text("import os\nfrom physics import step\nraise SystemExit('never imported')\n")
    (tmp_path / "physics.py").write_text("def step(): return 1\n")
    (tmp_path / "other.py").write_text("x = 1\n")
    (tmp_path / "games" / "board").mkdir(parents=True)
    (tmp_path / "games" / "__init__.py").write_text("")
    (tmp_path / "games" / "board" / "go.py").write_text("size = 19\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_module_counts_with_the_neighbours_it_imports_and_is_not_run(own_modules):
    before = modules_hash(["maze:Maze-v0"])
    assert set(module_files(["maze:Maze-v0"])) == {"maze.py", "physics.py"}
    (own_modules / "other.py").write_text("x = 2\n")
    assert modules_hash(["maze:Maze-v0"]) == before
    (own_modules / "physics.py").write_text("def step(): return 2\n")
    assert modules_hash(["maze:Maze-v0"]) != before


def test_a_package_counts_with_all_its_files(own_modules):
    assert set(module_files(["games.board.go:Go-v0"])) == {"games/__init__.py", "games/board/go.py"}
    assert set(code_identity(["games.board.go", "maze:Maze"]).modules) == {"games", "maze"}


def test_a_module_that_is_not_there_or_cannot_be_parsed_is_no_error(own_modules):
    (own_modules / "broken.py").write_text("def (:\n")
    assert modules_hash(["nowhere:Env-v0"]) == ""
    assert set(module_files(["broken"])) == {"broken.py"}
    assert code_identity(["nowhere:Env-v0"]).modules == {}


def test_the_place_of_a_module_does_not_count(own_modules, monkeypatch, tmp_path_factory):
    before = modules_hash(["maze", "games"])
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(own_modules, elsewhere)
    monkeypatch.syspath_prepend(elsewhere)
    assert modules_hash(["maze", "games"]) == before


def test_files_that_were_edited_added_or_removed_are_named():
    here = {"a.py": "1", "b.py": "2", "c.py": "3"}
    assert differences(here, here) == []
    assert differences(here, {"a.py": "1", "b.py": "9", "d.py": "4"}) == ["b.py", "c.py", "d.py"]
    assert combine(here) == combine(dict(reversed(here.items()))) != combine({**here, "a.py": "2"})


def test_versions_that_differ_are_named_with_both():
    here = code_identity()
    there = replace(here, python="3.9", packages={**here.packages, "torch": "1.0", "extra": "1"})
    torch = here.packages["torch"]
    assert version_differences(here, there) == [f"Python 3.9 (here {here.python})", f"torch 1.0 (here {torch})"]
    assert version_differences(here, replace(here, packages={})) == []


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    code_of_process.cache_clear()
    (tmp_path / "my_maze.py").write_text("size = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "my_maze.py"
    code_of_process.cache_clear()


def test_equal_code_has_no_differences():
    assert compare_code(code_identity()) is None


@pytest.mark.parametrize("change", [{"python": "3.9"}, {"packages": {"torch": "1.0"}}])
def test_a_different_python_or_torch_is_named_with_both_versions(change):
    requested = replace(code_identity(), **change)
    (line,) = describe_differences(compare_code(requested))
    assert ("3.9" in line) or ("torch" in line and "1.0" in line)
    assert compare_code(requested).affects_all_requests


def test_edited_files_of_palaestra_are_named(monkeypatch):
    requested = replace(code_identity(), package="of another edit")
    found = compare_code(requested)
    found = replace(found, package={**found.package, "envs/make.py": "edited"})
    assert describe_differences(found) == ["palaestra/envs/make.py"]


def test_an_edited_module_of_the_user_affects_only_requests_that_import_it(own_module):
    requested = code_identity(["my_maze"])
    assert compare_code(requested) is None
    code_of_process.cache_clear()
    own_module.write_text("size = 4\n")
    found = compare_code(requested)
    assert not found.affects_all_requests
    own_module.write_text("size = 3\n")
    assert describe_differences(found) == ["my_maze.py"]


def test_a_missing_module_is_named(own_module):
    requested = code_identity(["my_maze"])
    own_module.unlink()
    assert describe_differences(compare_code(requested)) == ["my_maze (not found there)"]
