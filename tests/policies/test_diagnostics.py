import math

import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.policies.diagnostics import dead_units, effective_rank, weight_statistics
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

CONFIG = TrainConfig(total_steps=384, ppo={"env_count": 2, "horizon": 32, "minibatch_size": 32})


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (torch.eye(5), 5.0),
        (torch.ones(4, 7), 1.0),
        (torch.zeros(3, 3), 0.0),
        (torch.diag(torch.tensor([3.0, 1.0])), math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))),
    ],
)
def test_effective_rank_of_known_matrices(matrix, expected):
    assert effective_rank(matrix) == pytest.approx(expected, abs=1e-6)


def test_a_unit_that_hears_nothing_is_dead_and_a_faint_one_is_not():
    matrix = torch.ones(4, 6)
    matrix[1] = 0.0
    matrix[2] *= 0.05
    assert dead_units(matrix) == 0.25
    assert dead_units(torch.zeros(2, 2)) == 1.0


def test_every_layer_of_the_network_has_its_three_figures():
    agent = new_training_state(CONFIG).algorithm.policy()
    metrics = weight_statistics(agent)
    layers = [path.removesuffix(".weight") for path, weight in agent.network.named_parameters() if weight.ndim == 2]
    assert len(layers) == 6
    assert set(metrics) == {
        f"weights/{layer}/{what}" for layer in layers for what in ("norm", "effective_rank", "dead_units")
    }
    weight = dict(agent.network.named_parameters())[f"{layers[0]}.weight"]
    expected = math.sqrt(float(weight.detach().square().sum()))
    assert metrics[f"weights/{layers[0]}/norm"] == pytest.approx(expected, rel=1e-5)


def test_weights_are_analysed_when_the_interval_says_so_and_by_default_never():
    asked = CONFIG.model_copy(update={"analyze_weights_interval": 2})
    counts = [
        sum(name.startswith("weights/") for name in report.metrics) for report in train(new_training_state(asked))
    ]
    assert [bool(count) for count in counts] == [False, True, False, True, False, True]
    assert all(report.metrics == {} for report in train(new_training_state(CONFIG)))


def test_gradient_norms_by_layer_are_those_of_the_last_step():
    asked = CONFIG.model_copy(update={"ppo": CONFIG.ppo.model_copy(update={"gradient_statistics": True})})
    state = new_training_state(asked)
    for report in train(state):
        assert len(report.metrics) == 6
        by_layer = sum(value**2 for value in report.metrics.values())
        biases = sum(float(p.grad.square().sum()) for p in state.algorithm.policy().parameters() if p.ndim < 2)
        assert math.sqrt(by_layer + biases) == pytest.approx(
            float(state.algorithm.tensors.optimizer.grad.norm()), rel=1e-4
        )


def test_looking_changes_nothing():
    options = {"analyze_weights_interval": 1, "ppo": CONFIG.ppo.model_copy(update={"gradient_statistics": True})}
    states = [new_training_state(CONFIG), new_training_state(CONFIG.model_copy(update=options))]
    for state in states:
        list(train(state))
    assert torch.equal(states[0].algorithm.tensors.optimizer.flat, states[1].algorithm.tensors.optimizer.flat)
