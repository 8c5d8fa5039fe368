import os
import shlex
from dataclasses import replace

import pytest

from palaestra.cli.arguments import parse_train_arguments
from palaestra.config.overrides import nest
from palaestra.core.errors import UsageError
from palaestra.core.run import RunState
from palaestra.core.trials import SlotRequest
from palaestra.runner.job import TrainingJob
from palaestra.runs.processes import process_started_at
from palaestra.runs.status import read_record, write_record
from palaestra.runs.store import RunStore
from palaestra.sweeps import order as order_module
from palaestra.sweeps.order import (
    command_of,
    digest,
    flatten,
    hidden_directory,
    is_done,
    make_order,
    prepare_run,
    slot_request,
)

SETTINGS = {
    "total_steps": 1000,
    "ppo": {"gamma": 0.98, "target_kl": None, "learning_rate": 3.998e-05},
    "env": {"id": "CartPole-v1", "kwargs": {}},
    "initial_weights": "007",
    "loggers": {"plugins": ["a", "b"]},
}


def test_the_command_of_a_run_typed_again_asks_for_the_same():
    program, verb, *argv = shlex.split(command_of("cartpole", SETTINGS, "lr-t1"))
    assert (program, verb) == ("palaestra", "train")
    read = parse_train_arguments(argv)
    assert (read.recipe, read.run, read.overrides) == ("cartpole", "lr-t1", SETTINGS)


def test_flattening_undoes_nesting():
    assert nest(flatten(SETTINGS)) == SETTINGS


def test_an_order_carries_the_request_and_the_complete_configuration(tmp_path):
    request, config = prepare_run("cartpole", {"ppo.gamma": 0.9}, "lr-t1", "sweep:lr:1")
    order = make_order(request, config, tmp_path / "runs", tmp_path)
    job = TrainingJob.from_json(order.job)
    assert (order.name, job.request.submitted_by, job.config.ppo.gamma) == ("lr-t1", "sweep:lr:1", 0.9)
    assert job.quiet
    assert job.runs_root.is_absolute()


def test_a_slot_has_what_a_run_keeps_busy():
    _, config = prepare_run("cartpole", {"torch_threads": 3, "cluster.address": "10.0.0.1:6379"}, "x", "")
    assert slot_request(config, 4) == SlotRequest(count=4, cpus_each=3, address="10.0.0.1:6379")


def test_a_run_is_done_when_it_has_all_its_steps(tmp_path, leave):
    request, config = prepare_run("", {"total_steps": 1000}, "one", "")
    store = RunStore(tmp_path / "runs")
    assert not is_done(store, request, config)
    leave("one", RunState.CANCELLED, reached=0.5)
    assert not is_done(store, request, config)
    leave("one")
    assert is_done(store, request, config)


def test_a_run_with_other_settings_is_refused_with_the_difference(tmp_path, leave):
    leave("one")
    request, config = prepare_run("", {"total_steps": 1000, "ppo.gamma": 0.5}, "one", "")
    with pytest.raises(UsageError, match="ppo.gamma: 0.99 -> 0.5"):
        is_done(RunStore(tmp_path / "runs"), request, config)


def test_a_run_in_other_hands_is_refused_with_its_process(tmp_path, leave, monkeypatch):
    monkeypatch.setattr(order_module, "INACTIVE_SECONDS", 0.0)
    directory = leave("one", RunState.RUNNING)
    mine = {"pid": os.getpid(), "pid_started_at": process_started_at(os.getpid())}
    write_record(directory, replace(read_record(directory), state=RunState.RUNNING, **mine))
    request, config = prepare_run("", {"total_steps": 1000}, "one", "")
    with pytest.raises(UsageError, match=f"trained by process {os.getpid()}"):
        is_done(RunStore(tmp_path / "runs"), request, config)


def test_the_books_lie_where_no_run_is_listed(tmp_path):
    hidden_directory(tmp_path).mkdir()
    assert RunStore(tmp_path).list() == []


def test_a_digest_knows_other_settings_and_not_another_order():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
