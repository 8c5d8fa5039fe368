from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import TrainConfig
from palaestra.core import plugins
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile
from palaestra.evaluation.targets import (
    find_external_policy,
    find_targets,
    load_policy_target,
    read_settings,
    refuse_foreign_module,
    run_directory_of,
)
from palaestra.runs.documents import write_config


def configure(run, **evaluation):
    write_config(run.directory, TrainConfig.model_validate({"evaluation": evaluation}).model_dump(mode="json"))


def test_how_a_run_evaluates_is_found_in_its_configuration(trained_run):
    configure(trained_run, episodes=4, simulations={"short": {"env": {"max_episode_steps": 9}}, "plain": {}})
    target = load_policy_target("judged", trained_run.root)
    assert target.settings.episodes == 4
    suite = target.own_suite()
    assert [(one.name, one.env.max_episode_steps) for one in suite.simulations] == [("short", 9), ("plain", 40)]


def test_a_run_that_says_nothing_evaluates_by_the_defaults(trained_run):
    assert load_policy_target("judged", trained_run.root).own_suite().simulations[0].env == trained_run.env
    trained_run.directory.config_file.unlink()
    assert read_settings(trained_run.directory).episodes == 20


def test_a_configuration_that_cannot_be_read_is_named(trained_run):
    write_config(trained_run.directory, {"evaluation": {"episodes": 0}})
    with pytest.raises(DamagedFile, match="config.yaml"):
        load_policy_target("judged", trained_run.root)


def test_a_file_without_its_run_has_no_directory_and_the_defaults(trained_run, tmp_path):
    foreign = tmp_path / "downloads"
    shutil.copytree(trained_run.directory.checkpoints, foreign)
    target = load_policy_target(str(foreign / "model_0003.yaml"), trained_run.root)
    assert (target.directory, target.is_own, target.settings.episodes) == (None, False, 20)
    assert run_directory_of(target.checkpoint) is None
    with target.in_use():
        pass


def test_while_it_is_held_retention_leaves_it_alone(trained_run):
    target = load_policy_target("judged:3", trained_run.root)
    trained_run.save(epoch=8)
    manager = CheckpointManager(trained_run.directory)
    with target.in_use():
        assert manager.retain(keep=1, keep_trainer_states=1).epochs == ()
    assert manager.retain(keep=1, keep_trainer_states=1).epochs == (3,)
    with pytest.raises(NotFound), target.in_use():
        pytest.fail("it is gone")


def test_a_run_from_elsewhere_cannot_have_a_module_imported_by_one_of_its_simulations(trained_run, tmp_path):
    configure(trained_run, simulations={"odd": {"env": {"id": "hostile_simulation:X-v0"}}})
    assert load_policy_target("judged", trained_run.root).own_suite().simulations[0].env.id == "hostile_simulation:X-v0"
    elsewhere = tmp_path / "elsewhere" / trained_run.directory.id
    shutil.copytree(trained_run.directory.path, elsewhere)
    with pytest.raises(RefusedFile, match="hostile_simulation"):
        load_policy_target(str(elsewhere), trained_run.root).own_suite()


def test_a_module_that_was_imported_already_may_be_used():
    refuse_foreign_module("json:Env-v0")
    refuse_foreign_module("CartPole-v1")
    with pytest.raises(RefusedFile):
        refuse_foreign_module("never_imported_module:Env-v0")


def test_every_checkpoint_of_a_run_can_be_meant_without_loading_any(trained_run):
    trained_run.save(epoch=10000)
    subjects = find_targets("judged:all", trained_run.root)
    assert [target.checkpoint.epoch for target in subjects] == [3, 10000]
    assert [target.name for target in find_targets("judged:3", trained_run.root)] == [subjects[0].name]
    assert all(target.is_own and target.directory == trained_run.directory for target in subjects)


def test_a_run_without_checkpoints_has_none_to_mean(trained_run):
    for path in trained_run.directory.checkpoints.iterdir():
        path.unlink()
    with pytest.raises(NotFound, match="no checkpoint"):
        find_targets("judged:all", trained_run.root)


@pytest.fixture
def opened(monkeypatch):
    monkeypatch.setattr(plugins, "names", lambda group: ["foreign"])
    monkeypatch.setattr(plugins, "load", lambda group, name: lambda *given: (group, name, *given))
    checkpoint = SimpleNamespace(policy={"kind": "foreign"}, path=None)
    return SimpleNamespace(checkpoint=checkpoint)


def test_the_kind_that_saved_a_checkpoint_brings_who_can_play_it(opened):
    assert find_external_policy(opened, "run", is_own=True) == ("external_policies", "foreign", opened, "run")


def test_a_policy_of_ours_has_no_external_policy(opened):
    opened.checkpoint.policy = {"graph": "fast"}
    assert find_external_policy(opened, "run", is_own=True) is None


@pytest.mark.parametrize(("directory", "is_own"), [("run", False), (None, True)])
def test_code_that_came_from_elsewhere_is_not_run(opened, directory, is_own):
    with pytest.raises(RefusedFile, match="kind 'foreign'; playing it would run"):
        find_external_policy(opened, directory, is_own=is_own)
