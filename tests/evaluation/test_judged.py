from __future__ import annotations

import shutil

import pytest

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import TrainConfig
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile
from palaestra.evaluation.judged import (
    find_subjects,
    load_judged,
    read_settings,
    refuse_foreign_module,
    run_directory_of,
)
from palaestra.runs.documents import write_config


def configure(run, **evaluation):
    write_config(run.directory, TrainConfig.model_validate({"evaluation": evaluation}).model_dump(mode="json"))


def test_how_a_run_judges_is_found_in_its_configuration(trained_run):
    configure(trained_run, episodes=4, simulations={"short": {"env": {"max_episode_steps": 9}}, "plain": {}})
    judged = load_judged("judged", trained_run.root)
    assert judged.settings.episodes == 4
    suite = judged.own_suite()
    assert [(one.name, one.env.max_episode_steps) for one in suite.simulations] == [("short", 9), ("plain", 40)]


def test_a_run_that_says_nothing_judges_by_the_defaults(trained_run):
    assert load_judged("judged", trained_run.root).own_suite().simulations[0].env == trained_run.env
    trained_run.directory.config_file.unlink()
    assert read_settings(trained_run.directory).episodes == 20


def test_a_configuration_that_cannot_be_read_is_named(trained_run):
    write_config(trained_run.directory, {"evaluation": {"episodes": 0}})
    with pytest.raises(DamagedFile, match="config.yaml"):
        load_judged("judged", trained_run.root)


def test_a_file_without_its_run_has_no_directory_and_the_defaults(trained_run, tmp_path):
    foreign = tmp_path / "downloads"
    shutil.copytree(trained_run.directory.checkpoints, foreign)
    judged = load_judged(str(foreign / "model_0003.yaml"), trained_run.root)
    assert (judged.directory, judged.is_own, judged.settings.episodes) == (None, False, 20)
    assert run_directory_of(judged.checkpoint) is None
    with judged.held():
        pass


def test_while_it_is_held_retention_leaves_it_alone(trained_run):
    judged = load_judged("judged:3", trained_run.root)
    trained_run.save(epoch=8)
    manager = CheckpointManager(trained_run.directory)
    with judged.held():
        assert manager.retain(keep=1, keep_trainer_states=1).epochs == ()
    assert manager.retain(keep=1, keep_trainer_states=1).epochs == (3,)
    with pytest.raises(NotFound), judged.held():
        pytest.fail("it is gone")


def test_a_run_from_elsewhere_cannot_have_a_module_imported_by_one_of_its_simulations(trained_run, tmp_path):
    configure(trained_run, simulations={"odd": {"env": {"id": "hostile_simulation:X-v0"}}})
    assert load_judged("judged", trained_run.root).own_suite().simulations[0].env.id == "hostile_simulation:X-v0"
    elsewhere = tmp_path / "elsewhere" / trained_run.directory.id
    shutil.copytree(trained_run.directory.path, elsewhere)
    with pytest.raises(RefusedFile, match="hostile_simulation"):
        load_judged(str(elsewhere), trained_run.root).own_suite()


def test_a_module_that_was_imported_already_may_be_used():
    refuse_foreign_module("json:Env-v0")
    refuse_foreign_module("CartPole-v1")
    with pytest.raises(RefusedFile):
        refuse_foreign_module("never_imported_module:Env-v0")


def test_every_checkpoint_of_a_run_can_be_meant_without_loading_any(trained_run):
    trained_run.save(epoch=10000)
    subjects = find_subjects("judged:all", trained_run.root)
    assert [subject.checkpoint.epoch for subject in subjects] == [3, 10000]
    assert [subject.name for subject in find_subjects("judged:3", trained_run.root)] == [subjects[0].name]
    assert all(subject.is_own and subject.directory == trained_run.directory for subject in subjects)


def test_a_run_without_checkpoints_has_none_to_mean(trained_run):
    for path in trained_run.directory.checkpoints.iterdir():
        path.unlink()
    with pytest.raises(NotFound, match="no checkpoint"):
        find_subjects("judged:all", trained_run.root)
