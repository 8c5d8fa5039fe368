from __future__ import annotations

import sys

import pytest

from palaestra.apps.scripts.packages import find_interpreter, implied_packages, install_hint, missing_packages
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
    assert missing_packages(read_script(script)) == ["surely_absent"]


def test_a_folder_that_some_run_left_is_no_package(tmp_path):
    (tmp_path / "surely_absent" / "offline-run-1").mkdir(parents=True)
    script = tmp_path / "made.py"
    script.write_text("import json\n")
    assert missing_packages(read_script(script), additional=["surely_absent"]) == ["surely_absent"]


def test_another_interpreter_is_requested_itself(tmp_path):
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    script = tmp_path / "made.py"
    script.write_text("import json\nimport surely_absent\n")
    assert missing_packages(read_script(script), str(python)) == ["surely_absent"]


def test_a_program_that_is_no_interpreter_is_refused(tmp_path):
    script = tmp_path / "made.py"
    script.write_text("import json\n")
    with pytest.raises(UsageError, match="does not behave like a Python"):
        missing_packages(read_script(script), "/bin/true")


BASIC_TYPES = "class Args:\n    env_id: str = 'CartPole-v1'\n"
RESIZED = f"{BASIC_TYPES}def make_env():\n    return gym.wrappers.ResizeObservation(env, (84, 84))\n"
WITHOUT_ID = "from cleanrl_utils.atari_wrappers import NoopResetEnv\n"


def implied(tmp_path, text, **values):
    path = tmp_path / "made.py"
    path.write_text(text)
    return implied_packages(read_script(path), values)


@pytest.mark.parametrize(
    ("env_id", "package"),
    [
        ("ALE/Pong-v5", "ale_py"),
        ("BreakoutNoFrameskip-v4", "ale_py"),
        ("HalfCheetah-v4", "mujoco"),
        ("Walker2d-v5", "mujoco"),
        ("LunarLander-v3", "Box2D"),
        ("MiniGrid-Empty-5x5-v0", "minigrid"),
    ],
)
def test_an_environment_is_known_by_its_id(tmp_path, env_id, package):
    assert implied(tmp_path, BASIC_TYPES, env_id=env_id) == [package]


def test_an_environment_of_gymnasium_alone_needs_nothing(tmp_path):
    assert implied(tmp_path, BASIC_TYPES, env_id="CartPole-v1", track=False) == []
    assert implied(tmp_path, BASIC_TYPES, env_id="CartPole-v1", track=True) == ["wandb"]


def test_wrappers_that_resize_need_opencv(tmp_path):
    assert implied(tmp_path, RESIZED, env_id="CartPole-v1") == ["cv2"]


def test_wrappers_for_atari_need_it_where_the_environment_is_not_known(tmp_path):
    assert implied(tmp_path, WITHOUT_ID) == ["ale_py", "cv2"]


def test_the_hint_is_a_command_with_the_names_that_pip_knows():
    assert "/venv/bin/python -m pip install ale-py opencv-python jax." in install_hint(
        ["ale_py", "cv2", "jax"], "/venv/bin/python"
    )
