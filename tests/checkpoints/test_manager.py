"""The simple class, used as a program of one's own would use it: with modules that Palaestra has never seen."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import DamagedFile, NonFinite, NotFound, UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.build import build_policy
from palaestra.runs.directory import RunDirectory

CARTPOLE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.hidden = nn.Linear(4, width)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(width, 2)
        self.register_buffer("mask", torch.tensor([0.0, float("-inf")]))

    def forward(self, observation):
        return self.out(self.drop(torch.tanh(self.hidden(observation))))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def manager(tmp_path):
    return CheckpointManager(tmp_path / "mine")


def set_weights(net, value):
    with torch.no_grad():
        net.hidden.weight.fill_(value)


def test_a_module_of_ones_own_is_saved_listed_found_and_loaded(manager, net):
    for epoch, score in ((10, 0.85), (20, 0.9), (30, 0.7)):
        set_weights(net, epoch)
        manager.save_agent(net, epoch, {"score": score, "loss": 1 / epoch})
    assert [(one.epoch, one.score) for one in manager.list_all_checkpoints()] == [(10, 0.85), (20, 0.9), (30, 0.7)]
    assert [one.epoch for one in manager.find_checkpoints_by_score(0.8)] == [20, 10]
    best = manager.find_best_checkpoint()
    assert (best.epoch, best.metrics) == (20, {"loss": 0.05})
    agent = manager.load_agent("best")
    assert agent.hidden.weight[0, 0].item() == 20.0
    assert not agent.training
    assert (net.training, net.hidden.weight[0, 0].item()) == (True, 30.0), "what trains is left alone"


def test_another_program_fills_a_module_that_it_made_itself(manager, tmp_path, net):
    manager.save_agent(net, 3)
    other = CheckpointManager(tmp_path / "mine")
    filled = Net()
    assert other.load_agent("latest", into=filled) is filled
    assert all(torch.equal(filled.state_dict()[name], tensor) for name, tensor in net.state_dict().items())
    made = other.load_agent(3, into=Net)
    observation = torch.ones(4)
    assert torch.equal(made(observation), net.eval()(observation))


def test_a_class_that_the_file_names_is_neither_imported_nor_called(manager, tmp_path, net):
    manager.save_agent(net, 3)
    manager.update_metadata(3, policy={"torch_module": "antigravity:Net"})
    with pytest.raises(UsageError, match=r"antigravity:Net, and only you can make .*load_agent\(3, into=Net"):
        CheckpointManager(tmp_path / "mine").load_agent()
    assert "antigravity" not in sys.modules


def test_a_module_of_another_shape_is_refused_by_name(manager, net):
    manager.save_agent(net, 3)
    with pytest.raises(DamagedFile, match=r"'hidden.weight' is F32 \[8, 4\], expected F32 \[9, 4\]"):
        manager.load_agent(into=Net(9))


def test_an_agent_of_ours_comes_back_ready_to_act(manager, tmp_path):
    agent = build_policy(PolicyConfig(graph="mlp", settings={"hidden": [8]}), CARTPOLE)
    manager.save_agent(agent, 1, {"env": "CartPole-v1", "agent_step": 640})
    loaded = CheckpointManager(tmp_path / "mine").load_agent()
    assert loaded.act(np.zeros(4)) in {0, 1}
    assert (loaded.checkpoint.env, loaded.checkpoint.agent_step) == ({"id": "CartPole-v1"}, 640)
    manager.save_agent(loaded, 2)
    again = manager.load_agent(2)
    assert again.checkpoint.env == {"id": "CartPole-v1"}
    assert all(torch.equal(again.policy.state_dict()[name], part) for name, part in agent.state_dict().items())


def test_the_optimizer_goes_on_where_it_was(manager, net):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.5)
    net(torch.ones(4)).sum().backward()
    optimizer.step()
    manager.save_agent(net, 7)
    manager.save_trainer_state(optimizer, 7, agent_step=5000)
    manager.save_trainer_state(optimizer, 7, agent_step=5000)
    state = manager.load_trainer_state()
    assert (state["epoch"], state["agent_step"]) == (7, 5000)
    assert manager.list_all_checkpoints()[-1].agent_step == 5000
    fresh = torch.optim.Adam(Net().parameters(), lr=0.1)
    fresh.load_state_dict(state["optimizer"])
    assert fresh.param_groups[0]["lr"] == 0.5
    moments = [one["exp_avg"] for one in fresh.state_dict()["state"].values()]
    assert all(map(torch.equal, moments, (one["exp_avg"] for one in optimizer.state_dict()["state"].values())))


def test_an_empty_place_has_no_agent_and_no_state(tmp_path, manager, caplog):
    assert (manager.load_agent(), manager.load_agent("best"), manager.load_trainer_state()) == (None, None, None)
    assert caplog.text.count("mine/checkpoints does not exist") == 1, "a slip of the pen looks the same"
    caplog.clear()
    assert CheckpointManager(tmp_path).load_agent() is None


def test_the_run_directory_or_its_folder_will_do(tmp_path, manager, net):
    manager.save_agent(net, 1)
    elsewhere = (tmp_path / "mine/checkpoints").rename(tmp_path / "copied")
    elsewhere.joinpath("checkpoint_log.json").unlink()
    (tmp_path / "mine").rename(tmp_path / "runs")
    elsewhere.rename(tmp_path / "runs/checkpoints")
    run = tmp_path / "runs"
    for place in (run, str(run), run / "checkpoints", RunDirectory(run)):
        assert [one.epoch for one in CheckpointManager(place).list_all_checkpoints()] == [1], place


def test_what_is_neither_is_said(tmp_path):
    (tmp_path / "notes.txt").touch()
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(UsageError, match="neither a run directory nor the checkpoints folder"):
            CheckpointManager(place)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_saved(manager, net, value):
    manager.save_agent(net, 1)
    with torch.no_grad():
        net.out.weight[1, 3] = value
    with pytest.raises(NonFinite, match=r"out\.weight"):
        manager.save_agent(net, 2)
    assert [one.epoch for one in manager.list_all_checkpoints()] == [1]


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda manager, net: manager.save_agent({"a": 1}, 1), UsageError, "cannot save a builtins.dict"),
        (lambda manager, net: manager.save_agent(net, -1), UsageError, "epoch: -1"),
        (lambda manager, net: manager.save_agent(net, 1, {"scor": "x"}), UsageError, "Did you mean 'score'"),
        (lambda manager, net: manager.save_agent(net, 1, {"policy": {}}), UsageError, "'policy'"),
        (lambda manager, net: manager.save_trainer_state(net.parameters(), 1, 0), UsageError, "torch optimizer"),
        (lambda manager, net: manager.save_trainer_state(net, 4, 0), NotFound, r"save_agent\(agent, 4\)"),
    ],
)
def test_calls_that_cannot_be_say_what_can(manager, net, call, error, named):
    with pytest.raises(error, match=named):
        call(manager, net)
    assert manager.survey().checkpoints == ()


@pytest.mark.slow
def test_listing_and_searching_need_no_torch(manager, net, tmp_path):
    manager.save_agent(net, 1, {"score": 2.0})
    program = (
        "import sys; from palaestra.checkpoints.manager import CheckpointManager as M;"
        f"m = M({str(tmp_path / 'mine')!r}); m.list_all_checkpoints(); print(m.find_best_checkpoint().epoch);"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "False"]
