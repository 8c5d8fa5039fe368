import json
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from torch import nn

from palaestra.apps.scripts.launcher.observer import Observer
from palaestra.apps.scripts.launcher.saving import Saver


@pytest.fixture
def said():
    return []


@pytest.fixture
def saver(tmp_path, said):
    observer = Observer(lambda *message: said.append(message), 0)
    observer.script.update(agent=nn.Linear(2, 1), args=SimpleNamespace(seed=4), global_step=12)
    return Saver(observer, tmp_path, tmp_path / "ppo.py", b"print(1)\n"), observer


def statistics(mean):
    return SimpleNamespace(mean=torch.tensor([mean]).numpy(), var=torch.ones(1).numpy(), count=3.0)


def test_a_snapshot_tells_the_script_its_arguments_and_its_classes(saver, said, tmp_path):
    saver[0].save("periodic")
    ((kind, why, path, step, classes),) = said
    assert (kind, why, step, classes) == ("saved", "periodic", 12, {"agent": "Linear"})
    with safe_open(path, "pt") as opened:
        notes = opened.metadata()
        assert set(opened.keys()) == {"agent.weight", "agent.bias"}
    assert (notes["script"], notes["source"], json.loads(notes["args"])) == ("ppo.py", "print(1)\n", {"seed": 4})


def test_statistics_of_closed_environments_are_those_that_they_had_before(saver, said):
    made, observer = saver
    base = SimpleNamespace(envs=[SimpleNamespace(obs_rms=statistics(7.0))])
    observer.script["envs"] = base
    made.remember(SimpleNamespace(envs=[]))
    base.envs, gone = [], base.envs
    made.save("before")
    base.envs = gone
    made.remember(base)
    base.envs = []
    made.save("finished")
    before, after = (message[2] for message in said)
    with safe_open(before, "pt") as opened:
        assert "normalisers.0.mean" not in opened.keys()  # noqa: SIM118  it is no dictionary
    with safe_open(after, "pt") as opened:
        assert opened.get_tensor("normalisers.0.mean").tolist() == [7.0]


def test_a_script_that_keeps_no_network_and_a_disk_that_takes_nothing_are_told(saver, said, tmp_path):
    made, observer = saver
    made._outbox = tmp_path / "nowhere"
    made.save("periodic")
    del observer.script["agent"]
    made.save("periodic")
    assert [message[0] for message in said] == ["unsaved", "unsaved"]
    assert "could not be written" in said[0][2]
    assert "no network" in said[1][2]
