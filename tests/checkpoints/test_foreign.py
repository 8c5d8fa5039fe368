import os
import pickle
import subprocess

import pytest
import torch
from safetensors.torch import save_file

from palaestra.checkpoints import foreign
from palaestra.checkpoints.foreign import ForeignKind, inspect_foreign, run_child, sniff
from palaestra.checkpoints.safetensors_header import TensorInfo
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_of_any_protocol_is_known_by_its_bytes(protocol):
    data = pickle.dumps({"weights": [1.0, 2.0], "name": "x"}, protocol)
    assert sniff(data, len(data)) is ForeignKind.PICKLE


def test_a_pickle_longer_than_what_is_looked_at_is_still_known():
    data = pickle.dumps(list(range(100_000)), 0)
    assert len(data) > foreign.SNIFF_BYTES
    assert sniff(data, len(data)) is ForeignKind.PICKLE


@pytest.mark.parametrize("data", [b"", b"hello world, this is text", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(100)])
def test_other_bytes_are_unknown(data):
    assert sniff(data, len(data)) is ForeignKind.UNKNOWN


def test_safetensors_are_described_without_a_child(tmp_path, monkeypatch):
    save_file({"w": torch.zeros(2, 3)}, tmp_path / "x.bin")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("no process is needed for this"))
    found = inspect_foreign(tmp_path / "x.bin")
    assert (found.kind, found.tensors) == (ForeignKind.SAFETENSORS, {"w": TensorInfo("F32", (2, 3))})


@pytest.mark.slow
@pytest.mark.parametrize("new_format", [True, False])
def test_a_state_dict_by_torch_save_is_described(tmp_path, new_format):
    state = {"w": torch.zeros(2, 3), "b": torch.zeros(2, dtype=torch.int64)}
    torch.save({"model_state_dict": state, "step": 5}, tmp_path / "x", _use_new_zipfile_serialization=new_format)
    found = inspect_foreign(tmp_path / "x")
    assert found.kind is ForeignKind.TORCH
    assert found.tensors == {"w": TensorInfo("float32", (2, 3)), "b": TensorInfo("int64", (2,))}


@pytest.mark.fault("C12")
def test_the_refusal_says_exactly_this(tmp_path):
    (tmp_path / "agent.pt").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(RefusedFile) as caught:
        inspect_foreign(tmp_path / "agent.pt")
    assert str(caught.value) == (
        "refused: file is a Python pickle (could run code). Convert it in a trusted place with 'palaestra convert'"
    )


def test_what_is_not_a_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(DamagedFile):
            inspect_foreign(path)
    with pytest.raises(NotFound):
        inspect_foreign(tmp_path / "nothing")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "huge.pt").open("wb") as stream:
        stream.truncate(foreign.MAX_FILE_BYTES + 1)
    with pytest.raises(DamagedFile, match="bytes; at most"):
        inspect_foreign(tmp_path / "huge.pt")


@pytest.mark.fault("C14")
def test_a_child_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    (tmp_path / "x.pt").write_bytes(b"PK\x03\x04")
    monkeypatch.setattr(foreign, "CHILD_TIMEOUT_SECONDS", 0.001)
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
