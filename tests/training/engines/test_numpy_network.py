import math

import numpy as np
import pytest
import torch

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.config.policy import PolicyConfig
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.build import build_policy
from palaestra.policies.critics import build_critics
from palaestra.training.engines.network_plan import NetworkPlan
from palaestra.training.engines.numpy_network import build_numpy_critics, build_numpy_network, orthogonal
from palaestra.training.engines.policy_plan import plan_critic, plan_policy

SEEN = BoxSpec((5,))
SPACES = {
    "choices": (SEEN, DiscreteSpec(3)),
    "several choices from bytes": (BoxSpec((2, 3), "uint8"), MultiDiscreteSpec((3, 2))),
    "continuous actions from a choice": (DiscreteSpec(4), BoxSpec((2,))),
}


ROLE_SPACES = [
    ("action_values", DiscreteSpec(3)),
    ("stochastic_actor", DiscreteSpec(3)),
    ("stochastic_actor", BoxSpec((2,), low=(-1.0, -2.0), high=(1.0, 2.0))),
    ("deterministic_actor", BoxSpec((2,), low=(-1.0, -2.0), high=(1.0, 2.0))),
]
ROLE_SETTINGS = [
    {"hidden": [7, 6], "activation": "relu"},
    {"hidden": [6, 6, 6], "activation": "relu", "layer_norm": True},
    {"hidden": [6, 6, 6], "activation": "gelu", "residual": True},
    {"hidden": [6, 6], "layer_norm": True, "residual": True},
    {"hidden": []},
]


DUELING, BOUNDED = (SEEN, DiscreteSpec(3)), (SEEN, ROLE_SPACES[2][1])


def network_of(settings=None, seen=SEEN, action=SPACES["choices"][1], seed=1, **policy):
    config = PolicyConfig(graph="mlp", settings=settings or {}, **policy)
    return build_numpy_network(config, EnvInterface(seen, action), seed)


@pytest.mark.parametrize(("seen", "action"), SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("settings", [{}, {"hidden": [7, 6, 3], "activation": "relu", "log_std": -0.5}, *ROLE_SETTINGS])
def test_it_is_laid_out_as_the_module_that_torch_builds(seen, action, settings):
    network = network_of(settings, seen, action)
    agent = build_policy(PolicyConfig(graph="mlp", settings=settings), EnvInterface(seen, action))
    flat = FlatOptimizer(agent).flat
    plan = plan_policy(agent, flat)
    assert isinstance(plan, NetworkPlan)
    assert network.plan == plan
    assert network.numbers["values"].size == flat.numel()


@pytest.mark.parametrize(("seen", "action"), SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("settings", [{}, {"hidden": [7, 6, 3]}, *ROLE_SETTINGS])
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


@pytest.mark.parametrize(("role", "action"), ROLE_SPACES)
@pytest.mark.parametrize("settings", ROLE_SETTINGS)
def test_in_every_role_it_is_laid_out_and_named_as_the_module_that_torch_builds(role, action, settings):
    config, interface = PolicyConfig(graph="mlp", settings=settings, role=role), EnvInterface(SEEN, action)
    network = build_numpy_network(config, interface, 1)
    agent = build_policy(config, interface)
    assert network.plan == plan_policy(agent, FlatOptimizer(agent, shared=network.numbers).flat)
    theirs = agent.state_dict()
    assert list(network.weights()) == list(theirs)
    assert {name: ours.tolist() for name, ours in network.weights().items()} == {
        name: part.tolist() for name, part in theirs.items()
    }


def test_a_dueling_head_has_a_value_beside_the_advantages():
    settings = {"hidden": [6], "action": {"dueling": True}}
    config, interface = PolicyConfig(graph="mlp", settings=settings, role="action_values"), EnvInterface(*DUELING)
    network = build_numpy_network(config, interface, 1)
    agent = build_policy(config, interface)
    assert network.plan == plan_policy(agent, FlatOptimizer(agent).flat)
    assert [network.plan.slot_sizes[slot] for slot in (network.plan.action_slot, network.plan.value_slot)] == [3, 1]
    assert list(network.weights()) == list(agent.state_dict())


@pytest.mark.parametrize(("role", "action"), ROLE_SPACES[1:])
@pytest.mark.parametrize("settings", ROLE_SETTINGS)
def test_critics_are_laid_out_one_behind_the_other_as_torch_builds_them(role, action, settings):
    config, interface = PolicyConfig(graph="mlp", settings=settings, role=role), EnvInterface(SEEN, action)
    network = build_numpy_critics(config, interface, 2, 1)
    critics = build_critics(config, interface, 2)
    flat = FlatOptimizer(critics, shared=network.numbers).flat
    first, second = flat.chunk(2)
    assert network.plan == plan_critic(critics[0], interface, first) == plan_critic(critics[1], interface, second)
    assert not torch.equal(first, second)
    theirs = critics.state_dict()
    assert {name: ours.tolist() for name, ours in network.weights().items()} == {
        name: part.tolist() for name, part in theirs.items()
    }


@pytest.mark.parametrize("inputs", [1, 100])
def test_off_policy_layers_begin_as_torchs_linear(inputs):
    """Uniform within 1 / sqrt(inputs), biases too; norms with scale 1 and shift 0."""
    settings = {"hidden": [400], "layer_norm": True, "activation": "relu"}
    network = network_of(settings, BoxSpec((inputs,)), DiscreteSpec(2), role="action_values")
    weights = {name.removeprefix("network.nodes."): part for name, part in network.weights().items()}
    limit = 1 / math.sqrt(inputs)
    for name in ("actor.layers.0.weight", "actor.layers.0.bias"):
        numbers = weights[name]
        assert 0.97 * limit < np.abs(numbers).max() <= limit, name
        assert numbers.std() == pytest.approx(limit / math.sqrt(3), rel=0.1), name
    assert np.abs(weights["action.layer.weight"]).max() <= 1 / math.sqrt(400)
    assert set(weights["actor.norms.0.weight"]) == {1.0}
    assert set(weights["actor.norms.0.bias"]) == {0.0}


@pytest.mark.parametrize(("role", "action"), [("actor_critic", DiscreteSpec(3)), *ROLE_SPACES])
def test_with_a_gain_every_layer_begins_orthogonal_whatever_the_role(role, action):
    """PQN's default, as in CleanRL's script; with torch and without."""
    settings = {"hidden": [7, 6], "gain": 1.5}
    config, interface = PolicyConfig(graph="mlp", settings=settings, role=role), EnvInterface(SEEN, action)
    torch_weights = {name: part.numpy() for name, part in build_policy(config, interface).state_dict().items()}
    for weights in (build_numpy_network(config, interface, 1).weights(), torch_weights):
        matrices = {name: part for name, part in weights.items() if name.endswith("weight")}
        assert len(matrices) in (3, 6)
        for matrix in matrices.values():
            rows = matrix if len(matrix) <= matrix.shape[1] else matrix.T
            np.testing.assert_allclose(rows @ rows.T, 1.5**2 * np.eye(len(rows)), atol=1e-5)
        assert all(not part.any() for name, part in weights.items() if name.endswith("bias"))


def test_a_log_std_of_a_stochastic_actor_is_the_bias_of_its_last_numbers():
    settings = {"hidden": [6], "log_std": -3.0}
    config, interface = PolicyConfig(graph="mlp", settings=settings, role="stochastic_actor"), EnvInterface(*BOUNDED)
    bias = build_numpy_network(config, interface, 1).weights()["network.nodes.action.layer.bias"]
    assert (
        bias[2:].tolist()
        == [-3.0, -3.0]
        == build_policy(config, interface).network.nodes["action"].layer.bias[2:].tolist()
    )
    assert np.abs(bias[:2]).max() < 1


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
        PolicyConfig(graph="mlp", settings={"layer_norm": 1}),
        PolicyConfig(graph="mlp", settings={"gain": 0}),
        PolicyConfig(graph="mlp", settings={"hidden": [4, 5], "residual": True}),
        PolicyConfig(graph="mlp", settings={"action": {"dueling": True}}),
        PolicyConfig(graph="mlp", settings={"action": {"gain": 1.0}}),
        PolicyConfig(graph="mlp", settings={"action": True}),
        PolicyConfig(graph="mlp", settings={"log_std": 0.0}, role="action_values"),
        PolicyConfig(graph="mlp", role="deterministic_actor"),
    ],
    ids=lambda config: f"{config} {config.settings}",
)
def test_what_is_not_plain_is_left_to_torch(config):
    assert build_numpy_network(config, EnvInterface(SEEN, DiscreteSpec(2)), 1) is None


def test_spaces_that_the_engine_does_not_know_are_left_to_torch():
    named = DictSpec((("a", SEEN),))
    assert network_of(seen=named) is None
    assert build_numpy_critics(PolicyConfig(graph="mlp"), EnvInterface(named, DiscreteSpec(2)), 2, 1) is None
    assert build_numpy_critics(PolicyConfig(graph="fast"), EnvInterface(SEEN, DiscreteSpec(2)), 2, 1) is None


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
