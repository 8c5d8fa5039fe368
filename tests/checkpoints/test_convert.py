from __future__ import annotations

import os
import pickle
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from palaestra.checkpoints import convert
from palaestra.checkpoints.convert import FileKind, convert_file, inspect_file, run_child, sniff
from palaestra.checkpoints.safetensors_header import TensorInfo
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError


@pytest.mark.slow
def test_a_state_dict_becomes_plain_safetensors(tmp_path):
    policy = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    policy[1].weight = policy[0].weight  # tied, as many networks are
    torch.save({"agent": policy.state_dict(), "step": 5}, tmp_path / "theirs.pt")
    found = convert_file(tmp_path / "theirs.pt", tmp_path / "ours.safetensors")
    read = load_file(tmp_path / "ours.safetensors")
    assert set(read) == set(found.tensors) == set(policy.state_dict())
    assert all(torch.equal(read[name], tensor) for name, tensor in policy.state_dict().items())


def test_safetensors_are_copied_as_they_are(tmp_path):
    save_file({"w": torch.ones(3)}, tmp_path / "theirs.safetensors")
    convert_file(tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


def test_a_pickle_is_not_opened_here_either_but_the_way_is_told(tmp_path):
    (tmp_path / "agent.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(RefusedFile, match="agent.state_dict") as caught:
        convert_file(tmp_path / "agent.pkl", tmp_path / "out.safetensors")
    assert "could run code" in str(caught.value)
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.fault("C14")
def test_a_shape_without_its_bytes_is_refused_and_named(tmp_path):
    header = b'{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DamagedFile, match=r"tensor 'w' .*4611686018427387904"):
        convert_file(tmp_path / "x.safetensors", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_a_broken_file_leaves_nothing(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"\x10" + bytes(7) + b"{broken")
    with pytest.raises(DamagedFile):
        convert_file(tmp_path / "x.safetensors", tmp_path / "out.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_nothing_is_written_over_or_elsewhere(tmp_path):
    save_file({"w": torch.ones(3)}, tmp_path / "x.safetensors")
    with pytest.raises(UsageError, match="there already"):
        convert_file(tmp_path / "x.safetensors", tmp_path / "x.safetensors")
    with pytest.raises(UsageError, match="does not end in"):
        convert_file(tmp_path / "x.safetensors", tmp_path / "out.pt")
    with pytest.raises(UsageError, match="not a directory"):
        convert_file(tmp_path / "x.safetensors", tmp_path / "nowhere/out.safetensors")


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_of_any_protocol_is_known_by_its_bytes(protocol):
    data = pickle.dumps({"weights": [1.0, 2.0], "name": "x"}, protocol)
    assert sniff(data, len(data)) is FileKind.PICKLE


def test_a_pickle_longer_than_what_is_looked_at_is_still_known():
    data = pickle.dumps(list(range(100_000)), 0)
    assert len(data) > convert.SNIFF_BYTES
    assert sniff(data, len(data)) is FileKind.PICKLE


@pytest.mark.parametrize("data", [b"", b"hello world, this is text", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(100)])
def test_other_bytes_are_unknown(data):
    assert sniff(data, len(data)) is FileKind.UNKNOWN


def test_safetensors_are_described_without_a_child(tmp_path, monkeypatch):
    save_file({"w": torch.zeros(2, 3)}, tmp_path / "x.bin")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("no process is needed for this"))
    found = inspect_file(tmp_path / "x.bin")
    assert (found.kind, found.tensors) == (FileKind.SAFETENSORS, {"w": TensorInfo("F32", (2, 3))})


@pytest.mark.slow
@pytest.mark.parametrize("new_format", [True, False])
def test_a_state_dict_by_torch_save_is_described(tmp_path, new_format):
    state = {"w": torch.zeros(2, 3), "b": torch.zeros(2, dtype=torch.int64)}
    torch.save({"model_state_dict": state, "step": 5}, tmp_path / "x", _use_new_zipfile_serialization=new_format)
    found = inspect_file(tmp_path / "x")
    assert found.kind is FileKind.TORCH
    assert found.tensors == {"w": TensorInfo("float32", (2, 3)), "b": TensorInfo("int64", (2,))}


@pytest.mark.fault("C12")
def test_the_refusal_says_exactly_this(tmp_path):
    (tmp_path / "agent.pt").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(RefusedFile) as caught:
        inspect_file(tmp_path / "agent.pt")
    assert str(caught.value) == (
        "refused: file is a Python pickle (could run code). Convert it in a trusted place with 'palaestra convert'"
    )


def test_what_is_not_a_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(DamagedFile):
            inspect_file(path)
    with pytest.raises(NotFound):
        inspect_file(tmp_path / "nothing")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "huge.pt").open("wb") as stream:
        stream.truncate(convert.MAX_FILE_BYTES + 1)
    with pytest.raises(DamagedFile, match="bytes; at most"):
        inspect_file(tmp_path / "huge.pt")


@pytest.mark.fault("C14")
def test_a_child_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    (tmp_path / "x.pt").write_bytes(b"PK\x03\x04")
    monkeypatch.setattr(convert, "CHILD_TIMEOUT_SECONDS", 0.001)
    with pytest.raises(DamagedFile, match="within"):
        run_child("inspect", tmp_path / "x.pt")


@pytest.mark.parametrize(
    ("code", "output", "error", "kind"),
    [
        (0, b'{"refused": "pickle"}', b"", RefusedFile),
        (0, b'{"problem": "compressed"}', b"", DamagedFile),
        (1, b"", b"Traceback\nMemoryError: no", DamagedFile),
        (-24, b"", b"", DamagedFile),
    ],
)
def test_whatever_the_child_answers_becomes_an_error_of_ours(tmp_path, monkeypatch, code, output, error, kind):
    answer = subprocess.CompletedProcess([], code, output, error)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(kind) as caught:
        run_child("inspect", tmp_path / "x.pt")
    assert type(caught.value) is kind
