import math

import numpy as np
import pytest
import torch

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.config.policy import PolicyConfig
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.build import build_policy
from palaestra.training.engines.network_plan import NetworkPlan
from palaestra.training.engines.numpy_network import build_numpy_network, orthogonal
from palaestra.training.engines.policy_plan import plan_policy

SEEN = BoxSpec((5,))
SPACES = {
    "choices": (SEEN, DiscreteSpec(3)),
    "several choices from bytes": (BoxSpec((2, 3), "uint8"), MultiDiscreteSpec((3, 2))),
    "continuous actions from a choice": (DiscreteSpec(4), BoxSpec((2,))),
}


def network_of(settings=None, seen=SEEN, action=SPACES["choices"][1], seed=1, **policy):
    config = PolicyConfig(graph="mlp", settings=settings or {}, **policy)
    return build_numpy_network(config, EnvInterface(seen, action), seed)


@pytest.mark.parametrize(("seen", "action"), SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("settings", [{}, {"hidden": [7, 6, 3], "activation": "relu", "log_std": -0.5}, {"hidden": []}])
def test_it_is_laid_out_as_the_module_that_torch_builds(seen, action, settings):
    network = network_of(settings, seen, action)
    agent = build_policy(PolicyConfig(graph="mlp", settings=settings), EnvInterface(seen, action))
    flat = FlatOptimizer(agent).flat
    plan = plan_policy(agent, flat)
    assert isinstance(plan, NetworkPlan)
    assert network.plan == plan
    assert network.numbers["values"].size == flat.numel()


@pytest.mark.parametrize(("seen", "action"), SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("settings", [{}, {"hidden": [7, 6, 3]}, {"hidden": []}])
def test_its_weights_are_called_and_shaped_as_in_the_agents_state_dict(seen, action, settings):
    network = network_of(settings, seen, action)
    agent = build_policy(PolicyConfig(graph="mlp", settings=settings), EnvInterface(seen, action))
    FlatOptimizer(agent, shared=network.numbers)
    network.numbers["values"][:] = np.arange(network.numbers["values"].size)
    theirs = agent.state_dict()
    assert list(network.weights()) == list(theirs)
    for name, ours in network.weights().items():
        assert ours.tolist() == theirs[name].tolist(), name


@pytest.mark.parametrize(("seen", "action"), SPACES.values(), ids=SPACES)
def test_it_begins_as_torch_would_begin(seen, action):
    """Biases and spreads to the number; matrices in what can be said of all that are drawn so."""
    settings = {"hidden": [8, 4], "log_std": -0.5}
    network = network_of(settings, seen, action)
    agent = build_policy(PolicyConfig(graph="mlp", settings=settings), EnvInterface(seen, action))
    parameters = dict(agent.named_parameters())
    pieces = np.split(network.numbers["values"], np.cumsum([part.numel() for part in parameters.values()])[:-1])
    for piece, (name, built) in zip(pieces, parameters.items(), strict=True):
        if built.ndim == 2:
            ours = np.linalg.svd(piece.reshape(built.shape), compute_uv=False)
            assert ours == pytest.approx(np.linalg.svd(built.detach().numpy(), compute_uv=False), rel=1e-5), name
        else:
            assert piece.tolist() == built.tolist(), name


def test_the_same_seed_draws_the_same_and_another_seed_another():
    first, again, other = network_of(seed=1), network_of(seed=1), network_of(seed=2)
    assert first.numbers["values"].tobytes() == again.numbers["values"].tobytes()
    assert first.numbers["values"].tobytes() != other.numbers["values"].tobytes()


def test_no_layer_draws_the_numbers_of_another():
    network = network_of({"hidden": [6, 6]})
    matrices = {
        network.numbers["values"][layer.weight_offset : layer.weight_offset + layer.inputs * layer.outputs].tobytes()
        for layer in network.plan.layers
    }
    assert len(matrices) == len(network.plan.layers)


def test_adam_has_taken_no_step_yet():
    numbers = network_of().numbers
    assert {name: float(np.abs(part).max()) for name, part in numbers.items() if name != "values"} == {
        "gradient": 0.0,
        "mean": 0.0,
        "spread": 0.0,
        "step_count": 0.0,
    }


def test_blocks_begin_a_cache_line_and_share_nothing():
    blocks = [part for name, part in network_of().numbers.items() if name != "step_count"]
    assert {part.__array_interface__["data"][0] % 64 for part in blocks} == {0}
    assert not any(np.shares_memory(one, other) for one in blocks for other in blocks if one is not other)


@pytest.mark.parametrize(("rows", "columns"), [(3, 8), (8, 3), (4, 4), (1, 6)])
def test_the_shorter_side_of_a_matrix_is_orthonormal_times_the_gain(rows, columns):
    matrix = orthogonal(np.random.default_rng(0), rows, columns, gain=2.0)
    short = matrix if rows <= columns else matrix.T
    assert matrix.shape == (rows, columns)
    assert short @ short.T == pytest.approx(4.0 * np.eye(min(rows, columns)), abs=1e-12)


def test_no_direction_is_preferred():
    """Householder's factorisation alone would give the diagonal one sign."""
    rng = np.random.default_rng(0)
    corners = [orthogonal(rng, 3, 3, 1.0)[0, 0] for _ in range(400)]
    assert abs(np.mean(corners)) < 4 / math.sqrt(3 * 400)


@pytest.mark.parametrize(
    "config",
    [
        PolicyConfig(graph="fast"),
        PolicyConfig(module="palaestra.policies.library.mlp:MlpPolicy"),
        PolicyConfig(graph="mlp", settings={"width": 3}),
        PolicyConfig(graph="mlp", settings={"hidden": [64, 0]}),
        PolicyConfig(graph="mlp", settings={"hidden": [True]}),
        PolicyConfig(graph="mlp", settings={"hidden": "64"}),
        PolicyConfig(graph="mlp", settings={"activation": "silu"}),
        PolicyConfig(graph="mlp", settings={"log_std": "low"}),
    ],
    ids=lambda config: f"{config} {config.settings}",
)
def test_what_is_not_plain_is_left_to_torch(config):
    assert build_numpy_network(config, EnvInterface(SEEN, DiscreteSpec(2)), 1) is None


def test_spaces_that_the_engine_does_not_know_are_left_to_torch():
    assert network_of(seen=DictSpec((("a", SEEN),))) is None


def test_an_optimiser_that_shares_its_memory_steps_it():
    network = network_of({"hidden": [4]})
    before = network.numbers["values"].copy()
    agent = build_policy(PolicyConfig(graph="mlp", settings={"hidden": [4]}), EnvInterface(SEEN, DiscreteSpec(3)))
    optimizer = FlatOptimizer(agent, shared=network.numbers)
    optimizer.learning_rate = 0.1
    network.numbers["gradient"][:] = 1.0
    optimizer.step(max_grad_norm=1e9)
    assert network.numbers["values"] == pytest.approx(before - 0.1, abs=1e-5)
    assert network.numbers["step_count"] == 1.0
    assert torch.equal(
        torch.cat([part.ravel() for part in agent.parameters()]), torch.from_numpy(network.numbers["values"])
    )
