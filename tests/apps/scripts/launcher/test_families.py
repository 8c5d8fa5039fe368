"""What each family does is worked out here from the weights themselves."""

from __future__ import annotations

import sys
import types
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, Normal

from palaestra.apps.scripts.launcher.families import (
    TransformerMemory,
    deterministic_actions,
    expected_values,
    family_of,
    has_transformer_memory,
)
from palaestra.apps.scripts.launcher.weights import Mismatch

SEEN = torch.tensor([[1.0, -2.0, 0.5]])
DISCRETE = gymnasium.spaces.Discrete(4)
BOX = gymnasium.spaces.Box(-0.5, 0.5, (2,))


class Discrete(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(3, 4)

    def get_action_and_value(self, x, action=None):
        spread = Categorical(logits=self.actor(x))
        action = spread.sample() if action is None else action
        return action, spread.log_prob(action), spread.entropy(), x.sum(1)


class Continuous(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor_mean = nn.Linear(3, 2)

    def get_action_and_value(self, x, action=None):
        spread = Normal(self.actor_mean(x), torch.ones(2))
        action = spread.sample() if action is None else action
        return action, spread.log_prob(action).sum(1), spread.entropy().sum(1), x.sum(1)


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4)

    def get_action_and_value(self, x, lstm_state, done, action=None):
        out, lstm_state = self.lstm(x[None] * (1 - done), lstm_state)
        return Categorical(logits=out[0]).sample(), None, None, None, lstm_state


class SacActor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 2)

    def forward(self, x):
        return self.mean(x), torch.zeros(2)

    def get_action(self, x):
        mean, log_std = self(x)
        action = torch.tanh(Normal(mean, log_std.exp()).rsample())
        return action, action.sum(1), torch.tanh(mean)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 2)

    def forward(self, x):
        return self.mean(x)


class Critic(nn.Module):
    def forward(self, x, a):
        return x.sum() + a.sum()


class C51(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("atoms", torch.tensor([0.0, 10.0]))
        self.network = nn.Linear(3, 8)

    def get_action(self, x, action=None):
        pmfs = torch.softmax(self.network(x).view(len(x), 4, 2), 2)
        return torch.argmax((pmfs * self.atoms).sum(2), 1), pmfs


def chosen(networks, space, deterministic=True):
    family = family_of(networks, [])
    return family.name, family.actor(networks, space)(SEEN, deterministic)


def test_a_discrete_policy_takes_its_largest_logit_and_draws_when_it_shall():
    agent = Discrete()
    name, action = chosen({"agent": agent}, DISCRETE)
    assert (name, action.tolist()) == ("policy gradient", agent.actor(SEEN).argmax(1).tolist())
    act = family_of({"agent": agent}, []).actor({"agent": agent}, DISCRETE)
    torch.manual_seed(1)
    assert len({act(SEEN, False).item() for _ in range(100)}) > 1


def test_a_continuous_policy_takes_its_mean():
    agent = Continuous()
    assert torch.equal(chosen({"agent": agent}, BOX)[1], agent.actor_mean(SEEN))
    assert not torch.equal(chosen({"agent": agent}, BOX, False)[1], agent.actor_mean(SEEN))


def test_a_policy_with_an_lstm_remembers_from_step_to_step():
    agent = Remembering()
    act = family_of({"agent": agent}, []).actor({"agent": agent}, DISCRETE)
    first, second = act(SEEN, True), act(SEEN, True)
    out, _ = agent.lstm(torch.stack([SEEN, SEEN]))
    assert [first.item(), second.item()] == out.argmax(-1).flatten().tolist()


def test_an_actor_with_noise_takes_its_mean_within_bounds():
    networks = {"qf1": Critic(), "actor": SacActor()}
    name, action = chosen(networks, BOX)
    wanted = torch.tanh(networks["actor"].mean(SEEN)).clamp(-0.5, 0.5)
    assert name == "stochastic actor"
    assert torch.equal(action, wanted)


def test_a_deterministic_actor_acts_within_bounds_and_its_critics_do_not():
    networks = {"qf1": Critic(), "actor": Actor()}
    with torch.no_grad():
        networks["actor"].mean.bias.fill_(9)
        assert chosen(networks, BOX)[1].tolist() == [[0.5, 0.5]]


def test_a_distribution_of_returns_takes_the_largest_expectation():
    network = C51()
    name, action = chosen({"q_network": network}, DISCRETE)
    values = [(torch.softmax(pair, 0) * network.atoms).sum().item() for pair in network.network(SEEN).view(4, 2)]
    assert (name, action.item()) == ("distributional Q-learning", int(np.argmax(values)))


def test_q_learning_takes_the_largest_value_of_the_network_that_learns():
    networks = {"other": Critic(), "q_network": nn.Linear(3, 4)}
    name, action = chosen(networks, DISCRETE)
    assert (name, action.item()) == ("Q-learning", networks["q_network"](SEEN).argmax().item())


def test_values_of_atoms_and_of_quantiles_are_expectations():
    chances = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]])
    holder = nn.Module()
    assert expected_values(chances, holder).tolist() == [[0.5, 0.5]]
    holder.support = torch.tensor([0.0, 10.0])
    assert expected_values(chances, holder)[0].tolist() == pytest.approx([1.0, 8.0])


def test_distributions_are_as_before_when_it_is_over():
    before = Categorical.sample, Normal.sample, Normal.rsample
    with deterministic_actions(True):
        assert Bernoulli(torch.tensor([0.6, 0.4])).sample().tolist() == [1.0, 0.0]
        assert Normal(torch.tensor(3.0), torch.tensor(1.0)).sample((2,)).tolist() == [3.0, 3.0]
    assert before == (Categorical.sample, Normal.sample, Normal.rsample)


def test_a_plugins_family_precedes_ours_and_no_family_may_fit():
    class Mine:
        def fits(self, networks):
            return "agent" in networks

    mine = Mine()
    assert family_of({"agent": Discrete()}, [mine]) is mine
    assert family_of({"critic": Critic()}, [mine]) is None


def test_a_plain_network_gives_the_largest_value_or_the_continuous_action_itself():
    policy = nn.Sequential(nn.Linear(3, 2))
    family = family_of({"policy": policy}, [])
    given = policy(SEEN)
    assert family.actor({"policy": policy}, DISCRETE)(SEEN, True).tolist() == given.argmax(1).tolist()
    action = family.actor({"policy": policy}, BOX)(SEEN, True)
    assert action.tolist() == given.clamp(-0.5, 0.5).tolist()


def test_a_plain_network_of_another_shape_reports_what_it_would_have_to_offer():
    policy = nn.Sequential(nn.Linear(3, 5))
    act = family_of({"policy": policy}, []).actor({"policy": policy}, BOX)
    reported = r"returns shape \[5\], an action has shape \[2\]; the network must have a method"
    with pytest.raises(Mismatch, match=reported):
        act(SEEN, True)


LAYERS, WIDTH = 2, 3


class Agent:
    """Remembers the number of the step, and what it was shown."""

    def __init__(self, steps):
        self.max_episode_steps = steps
        self.transformer = SimpleNamespace(transformer_layers=[None] * LAYERS)
        self.shown = []

    def get_action_and_value(self, x, memory, memory_mask, memory_indices, action=None):
        self.shown.append((memory[0, :, 0, 0].tolist(), memory_mask[0].tolist(), memory_indices[0].tolist()))
        return torch.tensor([[1]]), None, None, None, torch.full((1, LAYERS, WIDTH), float(len(self.shown)))


@pytest.fixture
def agent(monkeypatch):
    def make(steps, **arguments):
        module = types.ModuleType("script_of_the_test")
        module.args = SimpleNamespace(**arguments)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(Agent, "__module__", module.__name__)
        return Agent(steps)

    return make


@pytest.mark.parametrize(("window", "steps"), [(4, 9), (5, 5), (1, 3), (8, 3)])
def test_the_agent_sees_what_the_script_shows_it(agent, window, steps):
    """As ppo_trxl.py works out its windows: a table of indices and a triangle, made before the training."""
    made = agent(steps, trxl_memory_length=window, trxl_dim=WIDTH)
    memory = TransformerMemory(made)
    window = min(window, steps)
    first = torch.arange(window).repeat(window - 1, 1)
    later = torch.stack([torch.arange(i, i + window) for i in range(steps - window + 1)])
    indices = torch.cat((first, later)).long()
    triangle = torch.tril(torch.ones(window, window), diagonal=-1).bool()
    remembered = torch.zeros(steps)
    for step in range(steps):
        memory.act(torch.zeros(1, 4))
        expected = remembered[indices[step]], triangle[min(step, window - 1)], indices[step]
        assert made.shown[step] == tuple(one.tolist() for one in expected)
        remembered[step] = step + 1


def test_an_episode_beyond_its_limit_still_acts(agent):
    made = agent(3, trxl_memory_length=2, trxl_dim=WIDTH)
    memory = TransformerMemory(made)
    for _ in range(5):
        memory.act(torch.zeros(1, 4))
    assert made.shown[-1][2] == [1, 2]


def test_every_episode_begins_without_memory(agent):
    made = agent(4, trxl_memory_length=2, trxl_dim=WIDTH)
    family = family_of({"agent": made}, [])
    for _ in range(2):
        act = family.actor({"agent": made}, SimpleNamespace(shape=()))
        assert act(torch.zeros(1, 4), True).tolist() == [1]
        act(torch.zeros(1, 4), True)
    assert made.shown[0] == made.shown[2] != made.shown[1]


def test_without_its_arguments_it_is_reported_what_is_missing(agent):
    with pytest.raises(Mismatch, match="must have the arguments trxl_memory_length"):
        TransformerMemory(agent(4))


def test_an_agent_without_a_transformer_is_none_of_these():
    assert not has_transformer_memory(SimpleNamespace(get_action_and_value=lambda x, memory: None))
    assert not has_transformer_memory(SimpleNamespace())
