"""The comparison of off-policy algorithms: its settings, and that every side trains what the setting says."""

import inspect
from dataclasses import replace

import pytest
from peers import off_policy_cleanrl, off_policy_ours
from peers.off_policy_settings import OFF_POLICY_CATALOGUE, OFF_POLICY_SETTINGS, OFF_POLICY_TARGETS, read_job
from peers.page import OFF_POLICY, page
from peers.protocol import JOB, Job

from palaestra.config.overrides import parse_overrides
from palaestra.config.recipes.registry import find_recipe
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig


@pytest.mark.parametrize("name", OFF_POLICY_SETTINGS)
def test_our_command_line_sets_what_the_setting_says(name):
    setting = OFF_POLICY_SETTINGS[name]
    recipe, *words = off_policy_ours.words(setting, "native", 3)
    given = parse_overrides([word for word in words if not word.startswith("run=")])
    config = resolve_config(TrainConfig, find_recipe(recipe).config_for(setting.algorithm), given)
    ours = config.algorithm_settings
    assert config.env.id == setting.env_id
    assert config.algorithm == setting.algorithm
    assert tuple(config.policy.settings["hidden"]) == setting.hidden
    assert (ours.env_count, ours.gamma) == (setting.env_count, setting.gamma)
    if setting.algorithm != "pqn":
        assert (ours.batch_size, ours.train_interval) == (setting.batch_size, setting.train_interval)
        assert ours.learning_starts < setting.warm_up_steps
        assert ours.gradient_steps == 1


@pytest.mark.parametrize("name", ["dqn", "sac-256", "td3-halfcheetah"])
def test_stable_baselines3_knows_every_argument(name):
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    from peers import off_policy_sb3

    setting = OFF_POLICY_SETTINGS[name]
    known = inspect.signature(getattr(stable_baselines3, setting.algorithm.upper()).__init__).parameters
    assert set(off_policy_sb3.arguments(setting)) <= set(known)


def test_cleanrl_gets_as_many_minibatches_as_ours():
    words = off_policy_cleanrl.arguments(OFF_POLICY_SETTINGS["pqn"], 1)
    assert words[words.index("--num-minibatches") + 1] == str(4 * 128 // 128)


def test_a_job_survives_the_way_to_its_process(monkeypatch):
    setting = replace(OFF_POLICY_SETTINGS["sac-100"], total_steps=5)
    job = Job(setting, 1.5, 2, 3.0)
    monkeypatch.setenv(JOB, job.text())
    assert read_job() == job


def test_every_target_names_a_side_that_takes_part_in_its_setting():
    by_name = {peer.name: peer for peer in OFF_POLICY_CATALOGUE}
    for target in OFF_POLICY_TARGETS:
        assert target.setting in by_name[target.side].settings & by_name[target.against].settings


def test_the_page_lists_every_target_before_anything_was_measured():
    text = page([], {"cpu": "some", "cores": 2, "python": "3"}, "", OFF_POLICY)
    assert text.count("not measured") == len(OFF_POLICY_TARGETS)
