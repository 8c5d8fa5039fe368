import importlib.util
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from palaestra.cluster.rank import Site
from palaestra.cluster.rank_setup import delivery_for, different_code, forwarded_variables, modules_of
from palaestra.cluster.run_changes import CheckpointSaved
from palaestra.cluster.run_mirror import RunMirror, receive
from palaestra.config.train import TrainConfig
from palaestra.runs.code_identity import code_identity
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
        delivery = delivery_for(config, tmp_path / "runs", mirror)
    (name, report), (own, _) = delivery.runs
    assert (name, own) == ("teacher", "toy")
    assert [change.epoch for change in report.changes if isinstance(change, CheckpointSaved)] == [1]
    there = tmp_path / "there"
    there.mkdir()
    for run_name, run in delivery.runs:
        receive(there, run, run_name)
    assert RunStore(there).named("teacher").id == teacher.directory.id


def test_what_cannot_be_found_is_left_to_the_trainer(tmp_path):
    assert delivery_for(TrainConfig(initial_weights="nobody:best"), tmp_path, None).runs == ()


def test_equal_code_is_no_difference_and_versions_are_named():
    here = code_identity()
    assert different_code(None, None, Site("n", "h", "a", True, here), (), 1.0) == ""
    other = replace(here, packages={**here.packages, "numpy": "0.1"})
    assert different_code(None, None, Site("n", "h", "a", True, other), (), 1.0).startswith("numpy 0.1 (here ")


def test_modules_of_the_user_are_those_that_are_imported_by_name():
    assert modules_of(TrainConfig()) == ()
    assert modules_of(TrainConfig.model_validate({"env": {"id": "my_envs:Maze-v0"}})) == ("my_envs:Maze-v0",)
