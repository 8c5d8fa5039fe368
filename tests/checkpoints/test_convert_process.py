"""The child's parts, called in this process; with its limits on it runs in test_foreign and test_hostile_files."""

import zipfile

import pytest
import torch

from palaestra.checkpoints import convert_process
from palaestra.checkpoints.convert_process import find_state, is_state, main, zip_problem

STATE = {"w": torch.zeros(2)}


@pytest.fixture(autouse=True)
def _no_limits_on_this_process(monkeypatch):
    monkeypatch.setattr(convert_process, "limit_resources", lambda *_: None)


@pytest.mark.parametrize(
    "content",
    [STATE, {"state_dict": STATE, "step": 5}, {"weights of mine": STATE, "epoch": 1}, {"model": STATE, "ema": STATE}],
)
def test_the_state_is_found_where_people_put_it(content):
    assert set(find_state(content)) == {"w"}


@pytest.mark.parametrize("content", [[1], {}, {"a": STATE, "b": STATE}, {"step": 5}, {"w": STATE["w"], "step": 5}])
def test_what_holds_no_single_state_is_explained(content):
    assert isinstance(find_state(content), str)


def test_a_state_has_names_and_tensors_only():
    assert is_state(STATE)
    assert not is_state({1: torch.zeros(1)})
    assert not is_state({})


def test_an_archive_with_compressed_or_too_many_entries_is_a_problem(tmp_path, monkeypatch):
    torch.save(STATE, tmp_path / "good.pt")
    assert zip_problem(tmp_path / "good.pt") == ""
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", bytes(1000))
    assert "compressed" in zip_problem(tmp_path / "bomb.pt")
    monkeypatch.setattr(convert_process, "MAX_ZIP_ENTRIES", 2)
    assert "entries" in zip_problem(tmp_path / "good.pt")


@pytest.mark.fault("C13")
def test_a_whole_module_is_refused(tmp_path):
    torch.save(torch.nn.Linear(1, 1), tmp_path / "module.pt")
    assert main(["inspect", str(tmp_path / "module.pt")]) == {"refused": "pickle"}


def test_convert_writes_and_inspect_does_not(tmp_path):
    torch.save({"w": torch.arange(6).reshape(2, 3).t()}, tmp_path / "x.pt")
    assert main(["inspect", str(tmp_path / "x.pt")]) == {"tensors": {"w": ["int64", [3, 2]]}}
    assert [path.name for path in tmp_path.iterdir()] == ["x.pt"]
    main(["convert", str(tmp_path / "x.pt"), str(tmp_path / "out.safetensors")])
    assert (tmp_path / "out.safetensors").exists()
