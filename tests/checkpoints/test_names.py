import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from palaestra.checkpoints import names
from palaestra.checkpoints.names import (
    epoch_of_data,
    epoch_of_sidecar,
    is_temporary,
    model_name,
    owner_is_dead,
    sidecar_name,
    temporary_name,
    trainer_state_name,
)


@pytest.mark.parametrize(
    ("epoch", "sidecar"),
    [(0, "model_0000.yaml"), (10, "model_0010.yaml"), (9999, "model_9999.yaml"), (10000, "model_10000.yaml")],
)
def test_a_name_gives_its_epoch_back(epoch, sidecar):
    assert sidecar_name(epoch) == sidecar
    assert epoch_of_sidecar(sidecar) == epoch
    assert epoch_of_data(model_name(epoch)) == epoch
    assert epoch_of_data(trainer_state_name(epoch)) == epoch


@pytest.mark.parametrize(
    "name",
    [
        "model_10.yaml",
        "model_00010.yaml",
        "model_-001.yaml",
        "model_0010.yaml.bak",
        ".model_0010.yaml",
        "model_\u0660\u0660\u0661\u0660.yaml",
        "model_latest.yaml",
    ],
)
def test_names_that_were_never_given_out_have_no_epoch(name):
    assert epoch_of_sidecar(name) is None


@pytest.mark.fault("C15")
def test_a_temporary_file_of_this_process_is_alive():
    assert is_temporary(temporary_name("x.yaml"))
    assert not owner_is_dead(temporary_name("x.yaml"))


@pytest.mark.fault("C15")
def test_a_temporary_file_of_an_ended_process_is_dead():
    child = subprocess.run(
        [sys.executable, "-c", "from palaestra.checkpoints.names import temporary_name; print(temporary_name('x'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    name = child.stdout.strip()
    assert is_temporary(name)
    assert owner_is_dead(name)


def test_another_process_with_the_same_pid_is_not_the_owner():
    assert owner_is_dead(f".tmp-{os.getpid()}-1-x.yaml")


def test_the_start_in_a_name_is_the_one_that_the_system_tells_of_this_process():
    own = psutil.Process()
    ticks = int(temporary_name("x").split("-")[2])
    began = psutil.boot_time() + ticks / os.sysconf("SC_CLK_TCK")
    assert abs(began - own.create_time()) < 2


def test_where_there_is_no_proc_another_way_is_found(monkeypatch):
    own, nobody = os.getpid(), 2**22 + 1
    monkeypatch.setattr(names, "Path", lambda _: Path("/nowhere/at/all"))
    assert names._start_of(own) is None, "there is a /proc, and it does not know the process"
    monkeypatch.setattr(names, "_PROC_IS_THERE", False)
    assert names._start_of(own) == int(psutil.Process(own).create_time())
    assert names._start_of(nobody) is None


def test_data_of_no_epoch_has_none():
    assert [epoch_of_data(name) for name in ("model_10.safetensors", "model_00010.safetensors", "x.pt")] == [None] * 3


def test_other_names_are_not_temporary_files():
    assert not owner_is_dead("model_0010.yaml")
    assert not owner_is_dead(".tmp-mine")
