import pytest

from palaestra.config.keys import list_keys, section_names
from palaestra.config.library_names import ALGORITHM_KEYS, ALGORITHMS, KEYS, NOTES, translate_key
from palaestra.config.train import TrainConfig

PATHS = {key.path for key in list_keys(TrainConfig)} | set(section_names(TrainConfig)) | {"run"}


def test_every_name_of_ours_in_the_tables_is_a_key_and_none_of_theirs_is():
    assert set(KEYS.values()) <= PATHS
    for theirs, ours in ALGORITHM_KEYS.items():
        for leaf in ours:
            assert any(f"{algorithm}.{leaf}" in PATHS for algorithm in ALGORITHMS), (theirs, leaf)
    assert not {*KEYS, *ALGORITHM_KEYS} & PATHS
    assert not set(KEYS) & set(ALGORITHM_KEYS)
    assert set(NOTES) <= {*KEYS, *ALGORITHM_KEYS}


def test_the_algorithms_are_those_of_the_configuration():
    (algorithm,) = [key for key in list_keys(TrainConfig) if key.path == "algorithm"]
    assert algorithm.choices == ALGORITHMS


@pytest.mark.parametrize(
    ("typed", "algorithm", "ours"),
    [
        ("n_envs", "ppo", "ppo.env_count"),
        ("ppo.n_steps", "", "ppo.horizon"),
        ("--lr", "ppo", "ppo.learning_rate"),
        ("--num-envs", "ppo", "ppo.env_count"),
        ("total_timesteps", "", "total_steps"),
        ("algo", "", "ppo"),
        ("num_minibatches", "ppo", "not their number"),
        # Stable-Baselines3 and RL Zoo
        ("buffer_size", "dqn", "dqn.buffer_size."),
        ("learning_starts", "sac", "sac.learning_starts."),
        ("train_freq", "td3", "td3.train_interval."),
        ("target_update_interval", "dqn", "dqn.target_interval."),
        ("exploration_fraction", "dqn", "dqn.exploration.fraction."),
        ("exploration_final_eps", "pqn", "pqn.exploration.end."),
        ("batch_size", "sac", "sac.batch_size."),
        ("ent_coef", "sac", "sac.temperature."),
        ("policy_delay", "td3", "td3.policy_interval."),
        ("target_policy_noise", "td3", "td3.target_noise."),
        # CleanRL
        ("dqn.target_network_frequency", "", "dqn.target_interval."),
        ("start_e", "dqn", "dqn.exploration.start."),
        ("q_lr", "sac", "sac.critic_learning_rate."),
        ("policy_noise", "td3", "td3.target_noise."),
        ("n_steps", "dqn", "dqn.n_step."),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(typed, algorithm, ours):
    assert ours in translate_key(typed, algorithm)


def test_the_section_of_a_name_goes_before_the_algorithm():
    assert "td3.learning_rate." in translate_key("td3.lr", "ppo")


def test_without_an_algorithm_the_names_of_all_are_given():
    assert "called dqn.buffer_size, sac.buffer_size or td3.buffer_size, by algorithm." in translate_key("buffer_size")
    assert "called pqn.q_lambda." in translate_key("q_lambda", "ppo")


def test_a_name_that_nobody_uses_has_no_answer():
    assert translate_key("gama") == ""
    assert translate_key("--seeds") == ""
