"""The instrument in a made-up checkout: it runs what is marked, tells what it saw, and its exit code says whether."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.reliability.fault_matrix import CHECKOUT, find_tests, main
from tools.reliability.fault_rows import choose_rows

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


def test_rows_are_run_reported_and_written_and_a_bad_one_leaves_with_1(checkout, capfd):
    assert main(["--seed", "7", "--only", "C1,C2,G2,G3,W1"], checkout) == 1
    reported = capfd.readouterr().out.splitlines()
    summary = json.loads((checkout / "build" / "chaos-small.json").read_text())
    outcomes = {row["id"]: row["verdict"] for row in summary["rows"]}
    assert outcomes == {"C1": "held", "C2": "published only", "G2": "FAILED", "G3": "SKIPPED", "W1": "NO TEST"}
    assert (summary["size"], summary["seed"], summary["good"]) == ("small", 7, False)
    assert "     seed 7" in reported
    assert any("left behind" in line for line in reported)
    assert any(line.startswith("5 rows: 1 held, 1 published only") for line in reported)


def test_the_last_lines_name_the_rows_that_did_not_hold_with_test_and_reason(checkout, capfd):
    assert main(["--only", "C1,G2,G3,W1"], checkout) == 1
    *_, failed, reason, skipped, why, untested, last = capfd.readouterr().out.splitlines()
    assert failed.startswith("G2 FAILED: kill -9 of a worker: ")
    assert "tests/test_fails.py::test_fails: AssertionError: left behind" in reason
    assert skipped.startswith("G3 SKIPPED: ")
    assert "no strace" in why
    assert untested.startswith("W1 NO TEST: ")
    assert last == "Rows that did not hold: G2, G3, W1"


@pytest.mark.slow
def test_a_row_whose_test_ends_its_process_is_named_too(checkout, capfd):
    """As a crash of native code does: then only the name of the test is left."""
    dies = FAILS.replace('assert 1 == 0, "left behind"', "__import__('os')._exit(1)")
    (checkout / "tests" / "test_fails.py").write_text(dies)
    with (checkout / "pytest.ini").open("a") as settings:
        settings.write("addopts = -n 1\n")
    assert main(["--only", "C1,G2"], checkout) == 1
    reported = capfd.readouterr().out.splitlines()
    assert "crashed while running" in reported[-2]
    assert reported[-1] == "Rows that did not hold: G2"
    assert any(line.startswith("C1   held") for line in reported)


def test_when_pytest_cannot_even_begin_the_rows_that_were_not_tested_are_named(checkout, capfd):
    (checkout / "tests" / "test_fails.py").write_text("import no_such_module  # mark.fault('G2')")
    assert main(["--only", "C1,G2"], checkout) == 1
    assert "none of these rows was tested: C1, G2" in capfd.readouterr().err


def test_only_the_files_that_name_a_wanted_row_are_loaded_and_held_rows_leave_with_0(checkout, capfd):
    (checkout / "tests" / "test_fails.py").write_text("raise SystemExit('loaded')  # mark.fault('G2')")
    assert main(["--only", "C1", "--json", str(checkout / "told.json")], checkout) == 0
    assert json.loads((checkout / "told.json").read_text())["good"]


def test_without_a_checkout_it_says_what_is_missing(tmp_path, capsys):
    assert main([], tmp_path) == 3
    assert "Run the fault matrix in a checkout" in capsys.readouterr().err


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
    code = (
        "import sys\nimport tools.reliability.fault_matrix\nprint([m for m in ('pytest', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
