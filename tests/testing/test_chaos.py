"""The instrument in a made-up checkout: it runs what is marked, tells what it saw, and its exit code says whether."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.testing.chaos import CHECKOUT, find_tests, main
from palaestra.testing.chaos_rows import choose_rows

CONFTEST = """
import os, pytest

@pytest.fixture
def figure(record_property):
    return lambda name, value: record_property("figure", (name, value))
"""
HOLDS = """
import os, pytest

@pytest.mark.fault("C1")
def test_holds(figure):
    figure("seed", int(os.environ["PALAESTRA_CHAOS_SEED"]))

@pytest.mark.chaos
@pytest.mark.fault("C2")
def test_large(): raise AssertionError("not in the small size")

def test_of_no_row(): raise AssertionError("not one of ours")
"""
FAILS = """
import pytest

@pytest.mark.fault("G2")
def test_fails(): assert 1 == 0, "left behind"

@pytest.mark.fault("G3")
@pytest.mark.skip(reason="no strace")
def test_skipped(): pass
"""


@pytest.fixture
def checkout(tmp_path):
    tests = tmp_path / "tests"
    tests.mkdir()
    for name, text in {"conftest.py": CONFTEST, "test_holds.py": HOLDS, "test_fails.py": FAILS}.items():
        (tests / name).write_text(text)
    markers = "".join(f"    {name}\n" for name in ("fault", "chaos", "full"))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{markers}")
    return tmp_path


def test_rows_are_run_told_and_written_and_a_bad_one_leaves_with_1(checkout, capfd):
    assert main(["--seed", "7", "--only", "C1,C2,G2,G3,W1"], checkout) == 1
    said = capfd.readouterr().out.splitlines()
    told = json.loads((checkout / "build" / "chaos-small.json").read_text())
    verdicts = {row["id"]: row["verdict"] for row in told["rows"]}
    assert verdicts == {"C1": "held", "C2": "published only", "G2": "FAILED", "G3": "SKIPPED", "W1": "NO TEST"}
    assert (told["size"], told["seed"], told["good"]) == ("small", 7, False)
    assert "     seed 7" in said
    assert any("left behind" in line for line in said)
    assert said[-2].startswith("5 rows: 1 held, 1 published only")


def test_only_the_files_that_name_a_wanted_row_are_loaded_and_held_rows_leave_with_0(checkout, capfd):
    (checkout / "tests" / "test_fails.py").write_text("raise SystemExit('loaded')  # mark.fault('G2')")
    assert main(["--only", "C1", "--json", str(checkout / "told.json")], checkout) == 0
    assert json.loads((checkout / "told.json").read_text())["good"]


def test_without_a_checkout_it_says_what_is_missing(tmp_path, capsys):
    assert main([], tmp_path) == 3
    assert "Run the chaos bench in a checkout" in capsys.readouterr().err


def test_an_unknown_row_is_refused(checkout, capsys):
    assert main(["--only", "C1,Z9"], checkout) == 2
    assert "'Z9'" in capsys.readouterr().err


def test_rows_can_be_listed_with_their_files_without_running_anything(checkout, capsys):
    assert main(["--list", "--only", "C1"], checkout) == 0
    assert capsys.readouterr().out.splitlines()[1].strip() == "tests/test_holds.py"
    assert not (checkout / "build").exists()


def test_the_checkout_is_the_one_that_this_file_stands_in():
    assert Path(__file__).parents[2] == CHECKOUT
    assert Path(__file__).parents[1] / "checkpoints" / "test_kills.py" in find_tests(CHECKOUT, choose_rows(["C1"]))


def test_its_help_needs_neither_pytest_nor_torch():
    code = "import sys\nimport palaestra.testing.chaos\nprint([m for m in ('pytest', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
