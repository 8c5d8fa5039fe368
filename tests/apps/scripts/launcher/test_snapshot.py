from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from palaestra.apps.scripts.launcher import snapshot
from palaestra.apps.scripts.launcher.observer import Observer
from palaestra.apps.scripts.launcher.probe import observed
from palaestra.apps.scripts.launcher.snapshot import Saver, WarmStart
from palaestra.apps.scripts.launcher.weights import Mismatch


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
    tensors, classes = snapshot.collect_tensors(script_globals())
    assert classes == {"agent": "Sequential"}
    assert "agent.0.weight" in tensors
    assert "tensors.log_alpha" in tensors
    assert "optimisers.optimizer.0.exp_avg" in tensors
    assert not any(name.startswith(("same_agent", "obs", "_private")) for name in tensors)


def test_a_script_that_keeps_nothing_global_has_no_classes():
    assert snapshot.collect_tensors({"args": 1}) == ({}, {})


def test_the_file_is_what_the_safetensors_library_reads(tmp_path):
    tensors, _ = snapshot.collect_tensors(script_globals())
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
    tensors, _ = snapshot.collect_tensors({"agent": nn.Linear(1, 1), "envs": envs})
    assert tensors["normalisers.0.mean"].tolist() == [1.0, 2.0]
    assert tensors["normalisers.0.count"].item() == 5.0


def test_arguments_are_stored_as_far_as_they_are_plain():
    @dataclass
    class Args:
        gamma: float = 0.9
        target_kl: float = None
        device: object = torch.device("cpu")

    assert snapshot.arguments_of({"args": Args()}) == {"gamma": 0.9, "target_kl": None}
    assert snapshot.arguments_of({"args": SimpleNamespace(seed=1)}) == {"seed": 1}
    assert snapshot.arguments_of({}) == {}


@pytest.fixture
def messages():
    return []


@pytest.fixture
def saver(tmp_path, messages):
    observer = Observer(lambda *message: messages.append(message), 0)
    observer.script.update(agent=nn.Linear(2, 1), args=SimpleNamespace(seed=4), global_step=12)
    return Saver(observer, tmp_path, tmp_path / "ppo.py", b"print(1)\n"), observer


def statistics(mean):
    return SimpleNamespace(mean=torch.tensor([mean]).numpy(), var=torch.ones(1).numpy(), count=3.0)


def test_a_snapshot_reports_the_script_its_arguments_and_its_classes(saver, messages, tmp_path):
    saver[0].save("periodic")
    ((kind, why, path, step, classes),) = messages
    assert (kind, why, step, classes) == ("saved", "periodic", 12, {"agent": "Linear"})
    with safe_open(path, "pt") as opened:
        notes = opened.metadata()
        assert set(opened.keys()) == {"agent.weight", "agent.bias"}
    assert (notes["script"], notes["source"], json.loads(notes["args"])) == ("ppo.py", "print(1)\n", {"seed": 4})


def test_statistics_of_closed_environments_are_those_that_they_had_before(saver, messages):
    made, observer = saver
    base = SimpleNamespace(envs=[SimpleNamespace(obs_rms=statistics(7.0))])
    observer.script["envs"] = base
    made.collect_statistics(SimpleNamespace(envs=[]))
    base.envs, gone = [], base.envs
    made.save("before")
    base.envs = gone
    made.collect_statistics(base)
    base.envs = []
    made.save("finished")
    before, after = (message[2] for message in messages)
    with safe_open(before, "pt") as opened:
        assert "normalisers.0.mean" not in opened.keys()  # noqa: SIM118  it is no dictionary
    with safe_open(after, "pt") as opened:
        assert opened.get_tensor("normalisers.0.mean").tolist() == [7.0]


def test_a_script_that_keeps_no_network_and_a_disk_that_takes_nothing_are_reported(saver, messages, tmp_path):
    made, observer = saver
    made._outbox = tmp_path / "nowhere"
    made.save("periodic")
    del observer.script["agent"]
    made.save("periodic")
    assert [message[0] for message in messages] == ["save_failed", "save_failed"]
    assert "could not be written" in messages[0][2]
    assert "no network" in messages[1][2]


def globals_of(seed, width=4, updates=0):
    """As a script has them."""
    torch.manual_seed(seed)
    agent = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 2))
    optimizer = torch.optim.Adam(agent.parameters(), lr=0.01 * seed)
    for _ in range(updates):
        agent(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    env = gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))
    env.obs_rms.mean[:] = seed
    log_alpha = torch.full((1,), float(seed), requires_grad=True)
    return {"agent": agent, "optimizer": optimizer, "log_alpha": log_alpha, "envs": SimpleNamespace(envs=[env])}


@pytest.fixture
def warm(tmp_path):
    def make(stored):
        path = tmp_path / "start.safetensors"
        tensors, classes = snapshot.collect_tensors(stored)
        snapshot.write(path, tensors, {"classes": json.dumps(classes)})
        start = {"weights": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        messages = []
        return WarmStart(start, lambda *message: messages.append(message)), messages

    return make


def test_everything_that_was_saved_is_filled_in_and_the_scripts_own_settings_stay(warm):
    before, now = globals_of(5, updates=3), globals_of(1)
    start, messages = warm(before)
    start.fill_in(now)
    assert all(torch.equal(*pair) for pair in zip(before["agent"].parameters(), now["agent"].parameters(), strict=True))
    moments = [one["optimizer"].state_dict()["state"] for one in (before, now)]
    assert all(torch.equal(moments[0][0][key], moments[1][0][key]) for key in ("step", "exp_avg", "exp_avg_sq"))
    assert now["optimizer"].param_groups[0]["lr"] == 0.01
    assert (now["log_alpha"].item(), now["log_alpha"].requires_grad) == (5.0, True)
    assert now["envs"].envs[0].obs_rms.mean.tolist() == [5.0] * 4
    assert messages == [("warm_started", ["agent"], ["optimizer"])]


def test_what_does_not_fit_is_named_and_an_optimiser_of_another_kind_begins_without(warm):
    start, messages = warm(globals_of(5, updates=1))
    with pytest.raises(Mismatch, match=r"0.weight is \(4, 3\) in the checkpoint and \(6, 3\) now"):
        start.fill_in(globals_of(1, width=6))
    with pytest.raises(Mismatch, match="a network 'agent' .*, and this script has none"):
        start.fill_in({})
    other = globals_of(1)
    other["optimizer"] = torch.optim.Adam([nn.Parameter(torch.ones(2))])
    start.fill_in(other)
    assert messages == [("warm_started", ["agent"], [])]


def test_it_happens_at_the_first_reset_at_which_the_networks_are_there_and_once(warm):
    start, messages = warm(globals_of(5))
    observer = Observer(lambda *_: None, 0)
    observer.warm_start = start
    envs = observed(gymnasium.vector.SyncVectorEnv, observer)([lambda: gymnasium.make("CartPole-v1")])
    envs.reset(seed=1)
    assert messages == []
    observer.script.update(globals_of(1))
    envs.reset(seed=1)
    envs.reset(seed=1)
    assert len(messages) == 1
    envs.close()


def test_a_script_that_has_no_such_network_at_its_first_step_is_reported(warm):
    start, _ = warm(globals_of(5))
    observer = Observer(lambda *_: None, 0)
    observer.warm_start = start
    envs = observed(gymnasium.vector.SyncVectorEnv, observer)([lambda: gymnasium.make("CartPole-v1")])
    envs.reset(seed=1)
    with pytest.raises(Mismatch, match="has none"):
        envs.step([0])
    envs.close()
