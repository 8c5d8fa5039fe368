from pathlib import Path

import pytest

from palaestra.apps.cleanrl.scan import scan
from palaestra.contracts.errors import NotFound

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
