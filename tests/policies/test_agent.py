from __future__ import annotations

import pytest
import torch

from palaestra.algorithms.ppo import torch_ppo
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.agent import Agent, compile_network
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.distributions import Categorical
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

INTERFACE = EnvInterface(BoxSpec((2,)), DiscreteSpec(2))


class Echo(Policy):
    """Its value is the sum of what it sees; its memory counts the calls."""

    def forward(self, observation, memory, starts=None):
        value = observation.sum(-1)
        return PolicyOutput(Categorical(torch.zeros(*value.shape, 2)), value, {"calls": memory["calls"] + 1})

    def initial_memory(self, batch_size):
        return {"calls": torch.zeros(batch_size)}


def make(normalize_observations=False, normalize_returns=False):
    return Agent(Echo(), INTERFACE, normalize_observations=normalize_observations, normalize_returns=normalize_returns)


def test_the_network_sees_raw_observations_unless_asked_otherwise():
    agent = make()
    observation = torch.tensor([[[3.0, 4.0]]])
    assert agent(observation, agent.initial_memory(1)).value.tolist() == [[7.0]]
    assert agent.observation_normalizer is None
    assert agent.return_scaler is None


@pytest.mark.parametrize("door", ["forward", "act"])
def test_acting_and_learning_see_the_same_normalised_observations(door):
    agent = make(normalize_observations=True)
    agent.observation_normalizer.update(torch.tensor([[[1.0, 10.0]], [[3.0, 30.0]]]))  # mean 2, 20; deviation 1, 10
    output = getattr(agent, door)(torch.tensor([[[4.0, 50.0]]]), agent.initial_memory(1), None)
    assert output.value.item() == pytest.approx(2.0 + 3.0)


def test_memory_is_the_networks_and_goes_in_and_out():
    agent = make()
    memory = agent.initial_memory(3)
    for _ in range(2):
        memory = agent(torch.zeros(1, 3, 2), memory).memory
    assert memory["calls"].tolist() == [2.0] * 3


def test_statistics_are_part_of_what_is_saved():
    names = set(make(normalize_observations=True, normalize_returns=True).state_dict())
    assert {name.split(".")[0] for name in names} == {"observation_normalizer", "return_scaler"}
    assert set(make().state_dict()) == set()


SIZES = {"env_count": 2, "horizon": 32, "minibatch_size": 32}
CONFIG = TrainConfig(total_steps=192, engine="torch", ppo=SIZES)  # the native engine has dice of its own
COMPILED = CONFIG.model_copy(update={"policy": CONFIG.policy.model_copy(update={"compile": True})})


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_the_names_and_values_that_are_saved_do_not_know_of_it():
    state = new_training_state(CONFIG)
    before = {name: value.clone() for name, value in state.algorithm.policy().state_dict().items()}
    compile_network(state.algorithm.policy(), backend="eager")
    after = state.algorithm.policy().state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_second_call_changes_nothing():
    agent = new_training_state(CONFIG).algorithm.policy()
    compile_network(agent, backend="eager")
    first = agent.network.act
    compile_network(agent, backend="eager")
    assert agent.network.act is first


@pytest.mark.full
@pytest.mark.slow
def test_a_compiled_network_trains_as_the_plain_one_does(monkeypatch):
    compiled_with = []

    def eagerly(agent):
        compiled_with.append(agent)
        compile_network(agent, backend="eager")  # traces as the real one does, then runs torch's own kernels

    monkeypatch.setattr(torch_ppo, "compile_network", eagerly)
    plain, compiled = new_training_state(CONFIG), new_training_state(COMPILED)
    list(train(plain))
    list(train(compiled))
    assert compiled_with
    assert all(one is compiled.algorithm.policy() for one in compiled_with)
    assert torch.allclose(plain.algorithm.tensors.optimizer.flat, compiled.algorithm.tensors.optimizer.flat, atol=1e-6)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # of inductor, about the machine it finds
def test_inductor_trains_and_what_it_leaves_loads_into_a_plain_policy():
    compiled, plain = new_training_state(COMPILED), new_training_state(CONFIG)
    reports = list(train(compiled))
    list(train(plain))
    assert len(reports) == 3
    assert torch.allclose(plain.algorithm.tensors.optimizer.flat, compiled.algorithm.tensors.optimizer.flat, atol=1e-4)
    fresh = new_training_state(CONFIG).algorithm.policy()
    fresh.load_state_dict(compiled.algorithm.policy().state_dict(), strict=True)
