import pickle
import shutil
from dataclasses import replace

import pytest
import torch

from palaestra.checkpoints.targets import find_target
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError
from palaestra.core.run import UPLOADED, RunRequest
from palaestra.runs.status import read_written_record, write_record
from palaestra.runs.store import RunStore


@pytest.fixture
def run(tmp_path, save):
    """A true run called "first" in its own store, with three checkpoints."""
    made = RunStore(tmp_path / "runs").create(RunRequest("native", "cartpole", {}), {}, name="first")
    for epoch, score in ((1, 9.0), (2, 3.0), (10000, None)):
        save(epoch, score=score)
    for path in (tmp_path / "checkpoints").iterdir():
        shutil.move(path, made.checkpoints / path.name)
    return made


@pytest.mark.parametrize(
    ("selector", "epoch"), [("", 10000), (":latest", 10000), (":best", 1), (":2", 2), (":10000", 10000)]
)
def test_every_way_to_name_a_run(tmp_path, run, selector, epoch):
    root = tmp_path / "runs"
    for head in ("first", "latest", run.id, run.id[:20], f"{root}/first", str(run.path), f"{root}/by-name/first"):
        found = find_target(f"{head}{selector}", root)
        assert found.open().checkpoint.epoch == epoch, head
        assert found.is_own


@pytest.mark.parametrize("name", ["model_0002.yaml", "model_0002.safetensors"])
def test_a_file_can_be_named(tmp_path, run, name):
    assert find_target(run.checkpoints / name, tmp_path / "runs").open().checkpoint.epoch == 2
    assert find_target(str(run.checkpoints / name), tmp_path / "runs").open().checkpoint.epoch == 2


def test_what_lies_outside_the_store_is_not_our_own(tmp_path, run):
    shutil.copytree(run.path, tmp_path / "from a stranger")
    found = find_target(tmp_path / "from a stranger", tmp_path / "runs")
    assert not found.is_own
    assert not find_target(tmp_path / "from a stranger/checkpoints/model_0001.yaml", tmp_path / "runs").is_own


def test_what_somebody_uploaded_is_not_our_own_though_it_lies_in_the_store(tmp_path, run):
    write_record(run, replace(read_written_record(run), kind=UPLOADED))
    assert not find_target("first", tmp_path / "runs").is_own
    assert not find_target(run.checkpoints / "model_0001.yaml", tmp_path / "runs").is_own


def test_a_link_in_the_store_to_somewhere_else_is_not_our_own(tmp_path, run):
    shutil.move(run.path, tmp_path / "stranger")
    (tmp_path / "runs/linked").symlink_to(tmp_path / "stranger")
    assert not find_target(tmp_path / "runs/linked", tmp_path / "runs").is_own


@pytest.mark.parametrize("target", ["secnd", "secnd:best", "nowhere/model_0001.yaml", "nowhere/run:best"])
def test_what_is_not_there_is_not_found(tmp_path, run, target):
    with pytest.raises(NotFound):
        find_target(target, tmp_path / "runs").open()


def test_a_wrong_selector_is_corrected(tmp_path, run):
    with pytest.raises(UsageError, match="Did you mean 'best'"):
        find_target("first:bets", tmp_path / "runs")


def test_a_pickled_file_is_refused_with_the_way_to_convert_it(tmp_path):
    (tmp_path / "agent.pt").write_bytes(pickle.dumps({"weights": [1.0] * 40}))
    with pytest.raises(RefusedFile, match="palaestra convert"):
        find_target(tmp_path / "agent.pt", tmp_path)


def test_weights_alone_do_not_say_what_they_can_play(tmp_path):
    torch.save({"w": torch.ones(3)}, tmp_path / "weights.pt")
    with pytest.raises(DamagedFile, match="which policy and environment"):
        find_target(tmp_path / "weights.pt", tmp_path)
