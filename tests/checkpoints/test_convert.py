import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from palaestra.checkpoints.convert import convert_foreign
from palaestra.core.errors import DamagedFile, RefusedFile, UsageError


@pytest.mark.slow
def test_a_state_dict_becomes_plain_safetensors(tmp_path):
    policy = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    policy[1].weight = policy[0].weight  # tied, as many networks are
    torch.save({"agent": policy.state_dict(), "step": 5}, tmp_path / "theirs.pt")
    found = convert_foreign(tmp_path / "theirs.pt", tmp_path / "ours.safetensors")
    read = load_file(tmp_path / "ours.safetensors")
    assert set(read) == set(found.tensors) == set(policy.state_dict())
    assert all(torch.equal(read[name], tensor) for name, tensor in policy.state_dict().items())


def test_safetensors_are_copied_as_they_are(tmp_path):
    save_file({"w": torch.ones(3)}, tmp_path / "theirs.safetensors")
    convert_foreign(tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


def test_a_pickle_is_not_opened_here_either_but_the_way_is_told(tmp_path):
    (tmp_path / "agent.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(RefusedFile, match="agent.state_dict") as caught:
        convert_foreign(tmp_path / "agent.pkl", tmp_path / "out.safetensors")
    assert "could run code" in str(caught.value)
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.fault("C14")
def test_a_shape_without_its_bytes_is_refused_and_named(tmp_path):
    header = b'{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DamagedFile, match=r"tensor 'w' .*4611686018427387904"):
        convert_foreign(tmp_path / "x.safetensors", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_a_broken_file_leaves_nothing(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"\x10" + bytes(7) + b"{broken")
    with pytest.raises(DamagedFile):
        convert_foreign(tmp_path / "x.safetensors", tmp_path / "out.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_nothing_is_written_over_or_elsewhere(tmp_path):
    save_file({"w": torch.ones(3)}, tmp_path / "x.safetensors")
    with pytest.raises(UsageError, match="there already"):
        convert_foreign(tmp_path / "x.safetensors", tmp_path / "x.safetensors")
    with pytest.raises(UsageError, match="does not end in"):
        convert_foreign(tmp_path / "x.safetensors", tmp_path / "out.pt")
    with pytest.raises(UsageError, match="not a directory"):
        convert_foreign(tmp_path / "x.safetensors", tmp_path / "nowhere/out.safetensors")
