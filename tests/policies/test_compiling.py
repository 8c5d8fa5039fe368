import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.policies import compiling
from palaestra.policies.compiling import compile_network
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

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

    monkeypatch.setattr(compiling, "compile_network", eagerly)
    plain, compiled = new_training_state(CONFIG), new_training_state(COMPILED)
    list(train(plain))
    list(train(compiled))
    assert compiled_with == [compiled.agent]
    assert torch.allclose(plain.optimizer.flat, compiled.optimizer.flat, atol=1e-6)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # of inductor, about the machine it finds
def test_inductor_trains_and_what_it_leaves_loads_into_a_plain_policy():
    compiled, plain = new_training_state(COMPILED), new_training_state(CONFIG)
    reports = list(train(compiled))
    list(train(plain))
    assert len(reports) == 3
    assert torch.allclose(plain.optimizer.flat, compiled.optimizer.flat, atol=1e-4)
    fresh = new_training_state(CONFIG).algorithm.policy()
    fresh.load_state_dict(compiled.agent.state_dict(), strict=True)
