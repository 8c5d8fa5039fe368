"""A small project of its own is copied, mutants are planted in the copy, and its own tests see them or do not."""

import subprocess

import pytest

from palaestra.core.errors import NotFound
from tools.reliability import mutation_worker
from tools.reliability.mutation_copy import ProjectCopy, copy_project
from tools.reliability.mutations import mutants_of

SOURCE = """MOST = 10


def is_small(number):
    return number < MOST


def is_loud():
    return True


def is_even(number):
    return number % 2 == 0
"""
TESTS = """
import subprocess, sys
from palaestra.runs.sizes import is_small


def test_nine_is_small():
    assert is_small(9)


def test_ten_is_not_small():
    assert not is_small(10)


def test_other_processes_agree():
    words = "from palaestra.runs.sizes import is_loud; raise SystemExit(0 if is_loud() else 1)"
    assert subprocess.run([sys.executable, "-c", words]).returncode == 0

"""


@pytest.fixture
def checkout(tmp_path):
    """With our own bench in it, since that is what runs in the copy."""
    root = tmp_path / "checkout"
    files = {
        "src/palaestra/__init__.py": "",
        "src/palaestra/runs/__init__.py": "",
        "src/palaestra/runs/sizes.py": SOURCE,
        "tests/runs/test_sizes.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
        ".gitignore": "ignored\n*.so\n",
        "ignored": "x",
        "src/palaestra/built.so": "x",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_what_git_would_take_and_what_was_built_is_copied_and_nothing_else(checkout, tmp_path):
    copy_project(checkout, tmp_path / "copy")
    there = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert {"src/palaestra/runs/sizes.py", "src/palaestra/built.so", "tests/runs/test_sizes.py"} <= there
    assert "ignored" not in there
    assert not any(name.startswith(".git/") for name in there)


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(NotFound, match="is no checkout"):
        copy_project(tmp_path, tmp_path / "copy")


def observed(copy, tests=("tests/runs/test_sizes.py",)):
    """By the change: the test that failed with it, within functions all at once, others each from the start."""
    file = "src/palaestra/runs/sizes.py"
    found = mutants_of(SOURCE)
    inner = [mutant for mutant in found if mutant.is_inner]
    requested = copy.ask(file, list(tests), mutants=inner)
    assert requested["failed"] == ""
    summary = {mutant.change: each["failed"] for mutant, each in zip(inner, requested["answers"], strict=True)}
    for mutant in found:
        if not mutant.is_inner:
            summary[mutant.change] = copy.ask(file, list(tests), source=mutant.source)["failed"]
    return {change: failed.rpartition("::")[2] for change, failed in summary.items()}


@pytest.mark.full
def test_mutants_are_observed_by_tests_and_by_processes_that_they_start_and_gone_afterwards(checkout, monkeypatch):
    monkeypatch.setattr("tools.reliability.mutation_copy.HOUSE", ["-c", START])
    with ProjectCopy(checkout) as copy:
        assert observed(copy) == {
            "10 -> (11)": "test_ten_is_not_small",
            "return number < MOST -> return None": "test_nine_is_small",
            "number < MOST -> (number <= MOST)": "test_ten_is_not_small",
            "return True -> return None": "test_other_processes_agree",
            "True -> (False)": "test_other_processes_agree",
            "return number % 2 == 0 -> return None": "",
            "number % 2 == 0 -> (number % 2 != 0)": "",
            "number % 2 -> (number * 2)": "",
            "2 -> (3)": "",
            "0 -> (1)": "",
        }
        assert (copy.folder / "src/palaestra/runs/sizes.py").read_text() == SOURCE
        lost = SOURCE.replace("def is_small(", "raise ValueError\ndef is_small(")
        assert copy.ask("src/palaestra/runs/sizes.py", ["tests/runs/test_sizes.py"], source=lost)["failed"]
    assert not copy.folder.exists()


# The small project has no bench of its own; in its place is ours, without torch.
START = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("services", {mutation_worker.__file__!r})
services = sys.modules["services"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(services)
services.AHEAD = ()
services.main()
"""
