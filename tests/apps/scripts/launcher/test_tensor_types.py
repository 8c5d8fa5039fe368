import torch
from safetensors.torch import load, save

from palaestra.apps.scripts.launcher.tensor_types import TYPES
from palaestra.checkpoints.safetensors_header import read_header


def test_every_type_has_the_name_that_the_safetensors_library_gives_it():
    tensors = {name: torch.ones(2).to(kind) for kind, name in TYPES.items()}
    data = save(tensors)
    assert {name: one.dtype for name, one in load(data).items()} == {name: kind for kind, name in TYPES.items()}
    read_header(data, len(data), "made")
    for name in TYPES.values():
        assert f'"{name}":{{"dtype":"{name}"'.encode() in data
