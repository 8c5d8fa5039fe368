"""Environments of their own; pip itself is not asked here."""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import peers.installing as installing
import pytest
from peers.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pip(monkeypatch, tmp_path):
    """What pip was asked, and the code that it shall end with."""
    (tmp_path / "requirements-toy.txt").write_text("toy==1\n")
    monkeypatch.setattr(installing, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(installing.venv, "create", lambda folder, **_: folder.mkdir(parents=True, exist_ok=True))

    class Pip:
        code, calls = 0, []

        def run(self, arguments, env, **_):
            self.calls.append((arguments, env))
            errors = "WARNING: slow\nERROR: No matching distribution found for toy==1\nand more" if self.code else ""
            return subprocess.CompletedProcess(arguments, self.code, "", errors)

    pip = Pip()
    pip.calls = []
    monkeypatch.setattr(installing.subprocess, "run", pip.run)
    return pip


def test_an_environment_is_made_once(pip, tmp_path):
    python = installing.python_of("toy", tmp_path / "venvs")
    assert python == tmp_path / "venvs" / "toy" / "bin" / "python"
    assert installing.python_of("toy", tmp_path / "venvs") == python
    assert len(pip.calls) == 1


def test_other_requirements_make_it_anew(pip, tmp_path):
    installing.python_of("toy", tmp_path / "venvs")
    (tmp_path / "requirements-toy.txt").write_text("toy==2\n")
    installing.python_of("toy", tmp_path / "venvs")
    assert len(pip.calls) == 2


def test_our_constraints_are_not_theirs(pip, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_CONSTRAINT", "constraints.txt")
    installing.python_of("toy", tmp_path / "venvs")
    _, environment = pip.calls[0]
    assert "PIP_CONSTRAINT" not in environment
    assert environment["PATH"] == os.environ["PATH"]


def test_what_is_built_from_source_comes_second_and_takes_the_torch_that_is_there(pip, tmp_path):
    (tmp_path / "source-toy.txt").write_text("built==1\n")
    installing.python_of("toy", tmp_path / "venvs")
    (first, _), (second, _) = pip.calls
    assert str(tmp_path / "requirements-toy.txt") in first
    assert str(tmp_path / "source-toy.txt") in second
    assert {"--no-build-isolation", "--no-deps"} <= set(second) - set(first)


def test_a_failure_is_reported_in_pips_words_and_not_tried_twice(pip, tmp_path):
    pip.code = 1
    for _ in range(2):
        with pytest.raises(installing.CannotInstall, match="ERROR: No matching distribution found for toy==1"):
            installing.python_of("toy", tmp_path / "venvs")
    assert len(pip.calls) == 1


def test_our_own_modules_are_compiled_as_pip_does_for_what_it_installs(monkeypatch, tmp_path):
    package = tmp_path / "palaestra"
    (package / "room").mkdir(parents=True)
    for file in (package / "__init__.py", package / "room" / "noun.py"):
        file.write_text("ONE = 1\n")
    spec = SimpleNamespace(submodule_search_locations=[str(package)])
    monkeypatch.setattr(installing, "find_spec", {"palaestra": spec}.get)
    installing.compile_ours()
    found = sorted(path.name.split(".")[0] for path in package.rglob("*.pyc"))
    assert found == ["__init__", "noun"]


def test_every_environment_has_its_pinned_requirements_and_our_torch():
    torch = re.search(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]
    wanted = {peer.requirements for peer in CATALOGUE if peer.requirements}
    for name in wanted:
        lines = installing.requirements_file(name).read_text().splitlines()
        pins = [line for line in lines if line and not line.startswith("#")]
        assert all("==" in line for line in pins), name
        assert [line for line in pins if line.startswith("torch==")] == ([] if name == "jax" else [torch]), name
        assert not any("nvidia" in line for line in pins), name
