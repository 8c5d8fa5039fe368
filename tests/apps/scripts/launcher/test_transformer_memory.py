import sys
import types
from types import SimpleNamespace

import pytest
import torch

from palaestra.apps.scripts.launcher.families import family_of
from palaestra.apps.scripts.launcher.transformer_memory import TransformerMemory, has_transformer_memory
from palaestra.apps.scripts.launcher.weights import NotFitting

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


def test_without_its_arguments_it_is_told_what_is_missing(agent):
    with pytest.raises(NotFitting, match="must have the arguments trxl_memory_length"):
        TransformerMemory(agent(4))


def test_an_agent_without_a_transformer_is_none_of_these():
    assert not has_transformer_memory(SimpleNamespace(get_action_and_value=lambda x, memory: None))
    assert not has_transformer_memory(SimpleNamespace())
