from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from palaestra.apps.scripts.launcher import snapshot


def script_globals():
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimiser = torch.optim.Adam(network.parameters())
    network(torch.ones(4, 3)).sum().backward()
    optimiser.step()
    return {
        "agent": network,
        "same_agent": network,
        "optimizer": optimiser,
        "log_alpha": torch.zeros(1, requires_grad=True),
        "obs": torch.zeros(5),
        "_private": nn.Linear(1, 1),
        "nn": nn,
    }


def test_networks_are_found_among_the_globals_once_each():
    tensors, classes = snapshot.take(script_globals())
    assert classes == {"agent": "Sequential"}
    assert "agent.0.weight" in tensors
    assert "tensors.log_alpha" in tensors
    assert "optimisers.optimizer.0.exp_avg" in tensors
    assert not any(name.startswith(("same_agent", "obs", "_private")) for name in tensors)


def test_a_script_that_keeps_nothing_global_has_no_classes():
    assert snapshot.take({"args": 1}) == ({}, {})


def test_the_file_is_what_the_safetensors_library_reads(tmp_path):
    tensors, _ = snapshot.take(script_globals())
    tensors |= {"empty": torch.zeros(0, 3), "half": torch.ones(3).bfloat16(), "turned": torch.arange(6).reshape(2, 3).T}
    path = tmp_path / "made.safetensors"
    snapshot.write(path, tensors, {"note": "grüß"})
    read = load_file(path)
    assert set(read) == set(tensors)
    assert all(torch.equal(read[name], tensor.detach()) for name, tensor in tensors.items())
    assert list(tmp_path.iterdir()) == [path]


def test_statistics_of_observations_are_found_down_the_wrappers():
    statistics = SimpleNamespace(mean=np.array([1.0, 2.0]), var=np.array([3.0, 4.0]), count=5.0)
    inner = SimpleNamespace(obs_rms=statistics, env=SimpleNamespace())
    envs = SimpleNamespace(envs=[SimpleNamespace(env=inner)])
    tensors, _ = snapshot.take({"agent": nn.Linear(1, 1), "envs": envs})
    assert tensors["normalisers.0.mean"].tolist() == [1.0, 2.0]
    assert tensors["normalisers.0.count"].item() == 5.0


def test_arguments_are_kept_as_far_as_they_are_plain():
    @dataclass
    class Args:
        gamma: float = 0.9
        target_kl: float = None
        device: object = torch.device("cpu")

    assert snapshot.arguments_of({"args": Args()}) == {"gamma": 0.9, "target_kl": None}
    assert snapshot.arguments_of({"args": SimpleNamespace(seed=1)}) == {"seed": 1}
    assert snapshot.arguments_of({}) == {}
