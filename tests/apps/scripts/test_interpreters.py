import sys

import pytest

from palaestra.apps.scripts.interpreters import absent_packages, find_interpreter
from palaestra.apps.scripts.script import read_script
from palaestra.core.errors import NotFound, UsageError


def test_ours_is_meant_when_none_is_named():
    assert find_interpreter("") == sys.executable


def test_an_interpreter_that_is_not_there_is_refused():
    with pytest.raises(NotFound, match="no interpreter"):
        find_interpreter("/nowhere/python")


def test_packages_beside_the_script_and_those_that_are_stood_in_for_are_not_missed(tmp_path):
    (tmp_path / "cleanrl_utils").mkdir()
    (tmp_path / "cleanrl_utils" / "evals.py").write_text("")
    (tmp_path / "room" / "nested").mkdir(parents=True)
    (tmp_path / "room" / "helper.py").write_text("")
    script = tmp_path / "room" / "nested" / "made.py"
    script.write_text("import cleanrl_utils.evals\nimport helper\nimport tyro\nimport json\nimport surely_absent\n")
    assert absent_packages(read_script(script)) == ["surely_absent"]


def test_a_folder_that_some_run_left_is_no_package(tmp_path):
    (tmp_path / "surely_absent" / "offline-run-1").mkdir(parents=True)
    script = tmp_path / "made.py"
    script.write_text("import json\n")
    assert absent_packages(read_script(script), further=["surely_absent"]) == ["surely_absent"]


def test_another_interpreter_is_asked_itself(tmp_path):
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    script = tmp_path / "made.py"
    script.write_text("import json\nimport surely_absent\n")
    assert absent_packages(read_script(script), str(python)) == ["surely_absent"]


def test_a_program_that_is_no_interpreter_is_refused(tmp_path):
    script = tmp_path / "made.py"
    script.write_text("import json\n")
    with pytest.raises(UsageError, match="does not answer as Python does"):
        absent_packages(read_script(script), "/bin/true")
