import hashlib
import json
from types import SimpleNamespace

import gymnasium
import pytest
import torch
from torch import nn

from palaestra.apps.scripts.launcher import snapshot
from palaestra.apps.scripts.launcher.observer import Observer
from palaestra.apps.scripts.launcher.vector import observed
from palaestra.apps.scripts.launcher.warm import WarmStart
from palaestra.apps.scripts.launcher.weights import NotFitting


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
    def make(kept):
        path = tmp_path / "start.safetensors"
        tensors, classes = snapshot.take(kept)
        snapshot.write(path, tensors, {"classes": json.dumps(classes)})
        start = {"weights": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        said = []
        return WarmStart(start, lambda *message: said.append(message)), said

    return make


def test_everything_that_was_saved_is_filled_in_and_the_scripts_own_settings_stay(warm):
    before, now = globals_of(5, updates=3), globals_of(1)
    start, said = warm(before)
    start.fill_in(now)
    assert all(torch.equal(*pair) for pair in zip(before["agent"].parameters(), now["agent"].parameters(), strict=True))
    moments = [one["optimizer"].state_dict()["state"] for one in (before, now)]
    assert all(torch.equal(moments[0][0][key], moments[1][0][key]) for key in ("step", "exp_avg", "exp_avg_sq"))
    assert now["optimizer"].param_groups[0]["lr"] == 0.01
    assert (now["log_alpha"].item(), now["log_alpha"].requires_grad) == (5.0, True)
    assert now["envs"].envs[0].obs_rms.mean.tolist() == [5.0] * 4
    assert said == [("warmed", ["agent"], ["optimizer"])]


def test_what_does_not_fit_is_named_and_an_optimiser_of_another_kind_begins_without(warm):
    start, said = warm(globals_of(5, updates=1))
    with pytest.raises(NotFitting, match=r"0.weight is \(4, 3\) in the checkpoint and \(6, 3\) now"):
        start.fill_in(globals_of(1, width=6))
    with pytest.raises(NotFitting, match="a network 'agent' .*, and this script has none"):
        start.fill_in({})
    other = globals_of(1)
    other["optimizer"] = torch.optim.Adam([nn.Parameter(torch.ones(2))])
    start.fill_in(other)
    assert said == [("warmed", ["agent"], [])]


def test_it_happens_at_the_first_reset_at_which_the_networks_are_there_and_once(warm):
    start, said = warm(globals_of(5))
    observer = Observer(lambda *_: None, 0)
    observer.warm = start
    envs = observed(gymnasium.vector.SyncVectorEnv, observer)([lambda: gymnasium.make("CartPole-v1")])
    envs.reset(seed=1)
    assert said == []
    observer.script.update(globals_of(1))
    envs.reset(seed=1)
    envs.reset(seed=1)
    assert len(said) == 1
    envs.close()


def test_a_script_that_has_no_such_network_at_its_first_step_is_told(warm):
    start, _ = warm(globals_of(5))
    observer = Observer(lambda *_: None, 0)
    observer.warm = start
    envs = observed(gymnasium.vector.SyncVectorEnv, observer)([lambda: gymnasium.make("CartPole-v1")])
    envs.reset(seed=1)
    with pytest.raises(NotFitting, match="has none"):
        envs.step([0])
    envs.close()
