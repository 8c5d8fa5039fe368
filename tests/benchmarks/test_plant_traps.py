import subprocess

import plant_traps
import pytest
from traps.plant import plant

TEST = """
from palaestra.answer import answer

def test_the_answer():
    assert answer() == 42

def test_something_else():
    assert True

def test_that_fails_anyway():
    assert False
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of one function and three tests, in place of ours."""
    for file, text in {
        "src/palaestra/__init__.py": "",
        "src/palaestra/answer.py": "def answer():\n    return 42\n",
        "tests/test_answer.py": TEST,
    }.items():
        (tmp_path / "root" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / file).write_text(text)
    monkeypatch.setattr(plant_traps, "ROOT", tmp_path / "root")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "root", check=True)
    (tmp_path / "copy").mkdir()
    plant_traps.copy_project(tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.full
@pytest.mark.slow
def test_a_planted_defect_is_observed_in_the_copy_and_the_copy_is_clean_again(project):
    defect = plant(1, "a wrong answer", ("answer.py", "return 42", "return 41"))
    tests = ["test_answer.py"]
    assert plant_traps.try_out(defect, tests, project).caught_by == ("test_answer.py::test_the_answer",)
    harmless = plant(2, "the same in other words", ("answer.py", "return 42", "return 40 + 2"))
    assert plant_traps.try_out(harmless, tests, project).caught_by == ()


def test_failures_are_read_off_with_their_parameters_left_out():
    reports = "FAILED tests/a/test_b.py::test_c[1 - x] - assert 1 == 2\nERROR tests/test_d.py - ImportError: no\nok\n"
    assert plant_traps.FAILED.findall(reports) == ["a/test_b.py::test_c", "test_d.py"]


def test_the_page_says_what_caught_each_and_what_nobody_saw():
    index = plant_traps.index_of_traps()
    observed = plant_traps.Outcome(plant(17, "by the remainder"), ("training/test_intervals.py::test_x",))
    unseen = plant_traps.Outcome(plant(5, "with replacement"), ())
    *_, first, second = plant_traps.page(index, [observed, unseen]).splitlines()
    assert first == f"| 17 | {index.TRAPS[17]} | by the remainder | `training/test_intervals.py::test_x` |"
    assert second.endswith("| **nobody** |")
