from __future__ import annotations

from pathlib import Path

import pytest

from palaestra.apps.scripts.scan import (
    CHECKOUTS,
    MAX_CHECKOUTS,
    known_checkouts,
    offered_scripts,
    remember_checkout,
    remember_checkout_of,
    scan,
)
from palaestra.core.errors import NotFound

SCRIPTS = Path(__file__).parent / "scripts"


def test_every_script_of_a_checkout_is_listed_with_what_it_is(tmp_path):
    room = tmp_path / "cleanrl"
    room.mkdir()
    (room / "ppo_continuous_action.py").write_text("import surely_not_installed\nclass Args:\n    env_id: str = 'X'\n")
    (room / "dqn.py").write_text("class Args:\n    env_id: str = 'X'\n    save_model: bool = False\n")
    (room / "helper.py").write_text("x = 1\n")
    (room / "broken.py").write_text("def (:\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text("class Args:\n    env_id: str = 'X'\n")
    found = {one.path: one for one in scan(tmp_path)}
    assert sorted(found) == ["cleanrl/broken.py", "cleanrl/dqn.py", "cleanrl/ppo_continuous_action.py"]
    continuous = found["cleanrl/ppo_continuous_action.py"]
    assert (continuous.algorithm, continuous.actions) == ("PPO", "continuous")
    assert continuous.needs == ("surely_not_installed",)
    assert found["cleanrl/dqn.py"].saves
    assert "is not Python" in found["cleanrl/broken.py"].problem


def test_a_script_lacks_what_its_default_environment_needs(tmp_path, monkeypatch):
    absent = {"ale_py", "cv2"}
    monkeypatch.setattr("palaestra.apps.scripts.packages.find_spec", lambda name: None if name in absent else name)
    (tmp_path / "ppo_atari.py").write_text(
        "from cleanrl_utils.atari_wrappers import NoopResetEnv\nclass Args:\n    env_id: str = 'PongNoFrameskip-v4'\n"
    )
    (tmp_path / "ppo.py").write_text("class Args:\n    env_id: str = 'CartPole-v1'\n    track: bool = False\n")
    lacks = {one.path: one.needs for one in scan(tmp_path)}
    assert lacks == {"ppo_atari.py": ("ale_py", "cv2"), "ppo.py": ()}


@pytest.mark.parametrize(("kind", "actions"), [("Discrete", "discrete"), ("Box", "continuous")])
def test_what_a_script_insists_on_counts_more_than_its_name(tmp_path, kind, actions):
    (tmp_path / "sac_pictures.py").write_text(
        "class Args:\n    env_id: str = 'X'\n"
        f"assert isinstance(envs.single_action_space, gym.spaces.{kind}), 'no other'\n"
        "assert isinstance(envs.single_observation_space, gym.spaces.Box)\n"
    )
    assert scan(tmp_path)[0].actions == actions


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(NotFound, match="no directory"):
        scan(tmp_path / "absent")


def test_scripts_of_a_scanned_checkout_are_offered_as_they_are_now(tmp_path):
    checkout, runs = tmp_path / "checkout", tmp_path / "runs"
    checkout.mkdir()
    script = checkout / "dqn.py"
    script.write_text("class Args:\n    env_id: str = 'X'\n")
    (checkout / "broken.py").write_text("def (:\n")
    (checkout / "gone.py").symlink_to(tmp_path / "nowhere.py")
    assert offered_scripts(runs) == []
    scan(checkout, runs)
    (only,) = offered_scripts(runs)
    assert only.path == str(checkout)
    assert [(one.path, one.name, one.algorithm, one.actions) for one in only.scripts] == [
        (str(script), "dqn.py", "DQN", "discrete")
    ]
    (checkout / "ppo.py").write_text("import surely_not_installed\nclass Args:\n    env_id: str = 'X'\n")
    assert [(one.name, one.missing_packages) for one in offered_scripts(runs)[0].scripts] == [
        ("dqn.py", ()),
        ("ppo.py", ("surely_not_installed",)),
    ]


def test_a_folder_without_scripts_is_not_remembered(tmp_path):
    (tmp_path / "empty").mkdir()
    assert scan(tmp_path / "empty", tmp_path / "runs") == []
    assert known_checkouts(tmp_path / "runs") == []
    assert not (tmp_path / "runs").exists()


def made(path):
    path.mkdir(parents=True)
    return path


def test_the_newest_checkout_comes_first_and_none_is_stored_twice(tmp_path):
    one, other, runs = made(tmp_path / "one"), made(tmp_path / "other"), tmp_path / "runs"
    for checkout in (one, other, one):
        remember_checkout(runs, checkout)
    assert known_checkouts(runs) == [one, other]


def test_a_checkout_that_is_gone_is_left_out(tmp_path):
    gone = made(tmp_path / "gone")
    remember_checkout(tmp_path, gone)
    gone.rmdir()
    assert known_checkouts(tmp_path) == []


def test_only_the_newest_are_stored(tmp_path):
    for number in range(MAX_CHECKOUTS + 2):
        remember_checkout(tmp_path / "runs", made(tmp_path / f"checkout{number}"))
    assert len(known_checkouts(tmp_path / "runs")) == MAX_CHECKOUTS
    assert known_checkouts(tmp_path / "runs")[0].name == f"checkout{MAX_CHECKOUTS + 1}"


@pytest.mark.parametrize("content", ["{", "{}", "[5, null]", '["/surely/absent"]'])
def test_a_damaged_memory_is_an_empty_one(tmp_path, content):
    (tmp_path / CHECKOUTS).write_text(content)
    assert known_checkouts(tmp_path) == []
    remember_checkout(tmp_path, made(tmp_path / "one"))
    assert known_checkouts(tmp_path) == [tmp_path / "one"]


def test_a_script_s_repository_is_remembered_and_a_folder_that_is_none_is_not(tmp_path):
    script = made(tmp_path / "repository" / "cleanrl") / "ppo.py"
    remember_checkout_of(tmp_path, script)
    assert known_checkouts(tmp_path) == []
    (tmp_path / "repository" / ".git").mkdir()
    remember_checkout_of(tmp_path, script)
    assert known_checkouts(tmp_path) == [tmp_path / "repository"]
