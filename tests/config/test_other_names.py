import pytest

from palaestra.config.keys import list_keys, section_names
from palaestra.config.other_names import NOTES, OTHER_NAMES, describe_other_name
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError


def test_every_name_of_ours_in_the_table_is_a_key_and_none_of_theirs_is():
    keys = {key.path for key in list_keys(TrainConfig)} | set(section_names(TrainConfig)) | {"run"}
    assert set(OTHER_NAMES.values()) <= keys
    assert not set(OTHER_NAMES) & keys
    assert set(NOTES) <= set(OTHER_NAMES)


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("n_envs", "ppo.env_count"),
        ("ppo.n_steps", "ppo.horizon"),
        ("--lr", "ppo.learning_rate"),
        ("--num-envs", "ppo.env_count"),
        ("total_timesteps", "total_steps"),
        ("learning_rate", "ppo.learning_rate"),
        ("algo", "ppo"),
        ("num_minibatches", "not their number"),
    ],
)
def test_names_of_other_trainers_are_answered_with_ours(typed, ours):
    assert ours in describe_other_name(typed)


def test_a_name_that_nobody_uses_has_no_answer():
    assert describe_other_name("gama") == ""
    assert describe_other_name("--seeds") == ""


@pytest.mark.parametrize(("typed", "ours"), [("n_envs", "ppo.env_count"), ("algo", "Algorithms: ppo")])
def test_a_setting_by_another_trainers_name_is_refused_with_ours(typed, ours):
    with pytest.raises(UsageError, match=f"'{typed}'.*{ours}"):
        resolve_config(TrainConfig, None, {typed: 8})


def test_a_setting_in_the_wrong_section_by_another_trainers_name_is_refused_with_ours():
    with pytest.raises(UsageError, match="'ppo.n_steps'.*ppo.horizon"):
        resolve_config(TrainConfig, None, {"ppo": {"n_steps": 8}})
