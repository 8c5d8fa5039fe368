import pytest

from palaestra.apps.scripts.requirements import implied_packages, install_hint
from palaestra.apps.scripts.script import read_script

PLAIN = "class Args:\n    env_id: str = 'CartPole-v1'\n"
RESIZED = f"{PLAIN}def make_env():\n    return gym.wrappers.ResizeObservation(env, (84, 84))\n"
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
    assert implied(tmp_path, PLAIN, env_id=env_id) == [package]


def test_an_environment_of_gymnasium_alone_needs_nothing(tmp_path):
    assert implied(tmp_path, PLAIN, env_id="CartPole-v1", track=False) == []
    assert implied(tmp_path, PLAIN, env_id="CartPole-v1", track=True) == ["wandb"]


def test_wrappers_that_resize_need_opencv(tmp_path):
    assert implied(tmp_path, RESIZED, env_id="CartPole-v1") == ["cv2"]


def test_wrappers_for_atari_need_it_where_the_environment_is_not_known(tmp_path):
    assert implied(tmp_path, WITHOUT_ID) == ["ale_py", "cv2"]


def test_the_hint_is_a_command_with_the_names_that_pip_knows():
    assert "/venv/bin/python -m pip install ale-py opencv-python jax." in install_hint(
        ["ale_py", "cv2", "jax"], "/venv/bin/python"
    )
