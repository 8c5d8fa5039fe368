from __future__ import annotations

import hashlib

import pytest
import torch
from safetensors.torch import load, save, save_file
from torch import nn

from palaestra.apps.scripts.launcher.weights import TYPES, Mismatch, fill, of_network, read
from palaestra.checkpoints.safetensors_header import read_header


@pytest.fixture
def saved(tmp_path):
    """Written by the library of that format, not by ours."""
    path = tmp_path / "a.safetensors"
    tensors = {
        "agent.0.weight": torch.arange(6.0).reshape(2, 3),
        "agent.0.bias": torch.tensor([1.0, 2.0]),
        "count": torch.tensor(7),
        "flags": torch.tensor([True, False]),
        "nothing": torch.zeros(0, 4),
    }
    save_file(tensors, path, {"who": "me"})
    return path, tensors, hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_the_formats_own_library_wrote_is_read_alike(saved):
    path, tensors, digest = saved
    notes, found = read(path, digest)
    assert notes == {"who": "me"}
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_a_file_with_another_hash_is_not_read(saved):
    path, _, digest = saved
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(Mismatch, match="not the file that was verified"):
        read(path, digest)


def test_a_network_gets_its_own_weights(saved):
    path, tensors, digest = saved
    network = nn.Sequential(nn.Linear(3, 2))
    fill(network, of_network(read(path, digest)[1], "agent"), "agent")
    assert torch.equal(network[0].weight, tensors["agent.0.weight"])


@pytest.mark.parametrize(
    ("network", "reported"),
    [
        (nn.Sequential(nn.Linear(3, 4)), r"0.weight is \(2, 3\) in the checkpoint and \(4, 3\) now"),
        (nn.Sequential(nn.Linear(3, 2, bias=False)), "an additional 0.bias"),
        (nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), "no 1.bias"),
    ],
)
def test_a_class_that_has_changed_is_reported_by_what_differs(saved, network, reported):
    path, _, digest = saved
    with pytest.raises(Mismatch, match=f"'agent' .*Sequential.* differs from .*{reported}"):
        fill(network, of_network(read(path, digest)[1], "agent"), "agent")


def test_every_type_has_the_name_that_the_safetensors_library_gives_it():
    tensors = {name: torch.ones(2).to(kind) for kind, name in TYPES.items()}
    data = save(tensors)
    assert {name: one.dtype for name, one in load(data).items()} == {name: kind for kind, name in TYPES.items()}
    read_header(data, len(data), "made")
    for name in TYPES.values():
        assert f'"{name}":{{"dtype":"{name}"'.encode() in data
