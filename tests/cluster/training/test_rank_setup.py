from __future__ import annotations

import importlib.util
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from palaestra.cluster.training.rank_actor import ActorSite
from palaestra.cluster.training.rank_setup import (
    different_code,
    forwarded_variables,
    marker_file,
    modules_of,
    upload_for,
)
from palaestra.cluster.training.run_changes import CheckpointSaved
from palaestra.cluster.training.run_mirror import RunMirror, receive
from palaestra.config.train import TrainConfig
from palaestra.runs.environment import code_identity
from palaestra.runs.store import RunStore

spec = importlib.util.spec_from_file_location("toy_training", Path(__file__).with_name("toy_training.py"))
toy_training = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy_training)


def test_only_variables_of_ours_and_of_the_engines_travel(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("AWS_SECRET", "x")
    monkeypatch.setenv("PALAESTRA_OWN_DISK", "1")
    found = forwarded_variables()
    assert found["OMP_NUM_THREADS"] == "3"
    assert not {"AWS_SECRET", "PALAESTRA_OWN_DISK"} & found.keys()


def test_a_machine_gets_the_run_and_the_checkpoint_that_its_configuration_names(tmp_path):
    teacher = toy_training.ToyTraining(tmp_path / "runs", "teacher")
    for _ in range(2):
        teacher.train(1)
        teacher.save()
    teacher.stop()
    toy_training.ToyTraining(tmp_path / "runs").stop()
    config = TrainConfig(initial_weights="teacher:1")
    with closing(RunMirror(tmp_path / "runs", "toy")) as mirror:
        delivery = upload_for(config, tmp_path / "runs", mirror)
    (name, report), (own, _) = delivery.runs
    assert (name, own) == ("teacher", "toy")
    assert [change.epoch for change in report.changes if isinstance(change, CheckpointSaved)] == [1]
    there = tmp_path / "there"
    there.mkdir()
    for run_name, run in delivery.runs:
        receive(there, run, run_name)
    assert RunStore(there).named("teacher").id == teacher.directory.id


def test_what_cannot_be_found_is_left_to_the_trainer(tmp_path):
    assert upload_for(TrainConfig(initial_weights="nobody:best"), tmp_path, None).runs == ()


def test_equal_code_is_no_difference_and_versions_are_named():
    here = code_identity()
    assert different_code(None, None, ActorSite("n", "h", "a", True, here), (), 1.0) == ""
    other = replace(here, packages={**here.packages, "numpy": "0.1"})
    found = {"versions": ["numpy 0.1 (here 2.0)"], "package": None, "modules": {}}
    actor = SimpleNamespace(code_differences=SimpleNamespace(remote=lambda expected: found))
    ray = SimpleNamespace(get=lambda response, timeout: response)
    site = ActorSite("n", "h", "a", True, other)
    assert different_code(ray, actor, site, (), 1.0) == "numpy 0.1 (here 2.0)"


def test_modules_of_the_user_are_those_that_are_imported_by_name():
    assert modules_of(TrainConfig()) == ()
    assert modules_of(TrainConfig.model_validate({"env": {"id": "my_envs:Maze-v0"}})) == ("my_envs:Maze-v0",)


def test_a_marker_is_there_for_the_block_and_nothing_after_it(tmp_path):
    folder = tmp_path / "new" / "runs"
    with marker_file(folder) as name:
        assert (folder / name).is_file()
    assert not (tmp_path / "new").exists()


def test_what_was_there_stays_also_when_the_block_fails(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(ZeroDivisionError), marker_file(tmp_path):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_in_which_runs_were_made_meanwhile_stays(tmp_path):
    folder = tmp_path / "new" / "runs"
    with marker_file(folder):
        (folder / "a-run").mkdir()
    assert [path.name for path in folder.iterdir()] == ["a-run"]


def test_two_markers_have_two_names(tmp_path):
    with marker_file(tmp_path) as first, marker_file(tmp_path) as second:
        assert first != second
