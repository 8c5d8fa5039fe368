"""One small real run, trained once and copied for every test that wants runs to look at."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from palaestra.cli.main import main
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("trained") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALAESTRA_RUNS_DIR", str(root))
        for name in ("third", "second", "first"):
            assert main(["train", "cartpole", f"run={name}", "total_steps=512", f"seed={len(name)}", "--quiet"]) == 0
        assert main(["eval", "first", "--episodes", "1"]) == 0
    return root


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty project to stand in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PALAESTRA_RUNS_DIR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.fixture
def runs(workplace, trained_runs):
    shutil.copytree(trained_runs, workplace / "runs", symlinks=True)
    return workplace / "runs"


@pytest.fixture
def make_run(workplace):
    """An empty run, made without training."""

    def make(name):
        request = RunRequest(kind="native", recipe="cartpole", config={}, name=name)
        return RunStore(workplace / "runs").create(request, {"seed": 1})

    return make


@pytest.fixture
def call(workplace, capsys):
    """`call("runs", "--json")` -> exit code, stdout, stderr."""

    def run(*arguments):
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def terminal_of():
    """`with terminal_of(program, cwd) as terminal:` see pseudo_terminal.py"""
    spec = importlib.util.spec_from_file_location("pseudo_terminal", Path(__file__).with_name("pseudo_terminal.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pseudo_terminal
