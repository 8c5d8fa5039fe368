import sys
import types
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from palaestra.apps.scripts.launcher.families import family_of
from palaestra.apps.scripts.launcher.jax_networks import (
    as_tensor,
    fill_tree,
    find_states,
    leaves,
    make_jax_networks,
    tree_of,
)
from palaestra.apps.scripts.launcher.weights import Mismatch, of_network


class Network:
    def init(self, key):
        raise AssertionError("never called")

    def apply(self, params, x):
        raise AssertionError("never called")


class Moments(NamedTuple):
    count: Any
    mu: Any


@dataclass(frozen=True)
class State:
    step: Any
    apply_fn: Any
    params: Any
    opt_state: Any = ()


@pytest.fixture
def jax(monkeypatch):
    module = types.ModuleType("jax")
    module.numpy = np
    monkeypatch.setitem(sys.modules, "jax", module)


def state(network, value=1.0, step=3):
    params = {"params": {"Dense_0": {"kernel": np.full((2, 1), value, np.float32)}}}
    return State(step, network.apply, params, (Moments(np.int32(step), params), ()))


PATHS = {
    "q_state.step",
    "q_state.params.params.Dense_0.kernel",
    "q_state.opt_state.0.count",
    "q_state.opt_state.0.mu.params.Dense_0.kernel",
}


def test_a_state_is_stored_by_the_paths_of_its_tree_with_its_network(jax):
    network = Network()
    found = find_states({"other": Network(), "q_network": network, "q_state": state(network), "args": object()})
    assert set(found.tensors) == PATHS
    assert found.tensors["q_state.params.params.Dense_0.kernel"].tolist() == [[1.0], [1.0]]
    assert (found.classes, found.networks) == ({"q_network": "Network"}, {"q_state": "q_network"})


def test_a_network_is_found_behind_a_compiled_function(jax):
    network = Network()

    def compiled():
        raise AssertionError("never called")

    compiled.__wrapped__ = network.apply
    names = {"a": Network(), "b": network, "agent_state": State(0, compiled, {"w": np.ones(1)})}
    assert find_states(names).networks == {"agent_state": "b"}


def test_a_state_without_a_network_is_stored_by_itself(jax):
    found = find_states({"a": Network(), "b": Network(), "agent_state": State(0, None, {"w": np.ones(1)})})
    assert (found.classes, found.networks) == ({"agent_state": "State"}, {"agent_state": ""})


def test_a_bare_tree_belongs_to_the_only_network(jax):
    found = find_states({"net": Network(), "params": {"w": np.ones(2)}, "grads": {"w": np.ones(2)}})
    assert (set(found.tensors), found.networks) == ({"params.w"}, {"params": "net"})


def test_scripts_without_jax_are_not_searched(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert find_states({"params": {"w": np.ones(2)}}) == ({}, {}, {})


def test_arrays_whose_memory_was_given_away_are_passed_over():
    gone = types.SimpleNamespace(shape=(2,), dtype=np.dtype("float32"), is_deleted=lambda: True)
    assert list(leaves({"gone": gone, "there": np.ones(1), "switch": True})) == [("there", np.ones(1))]


def test_numbers_and_arrays_become_tensors_of_their_own():
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    tensor = as_tensor(array)
    array[0, 0] = 9
    assert tensor.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (as_tensor(7).shape, as_tensor(7).item()) == (torch.Size([]), 7)


def test_a_tree_is_filled_with_other_arrays_and_keeps_its_form(jax):
    network = Network()
    now = state(network, 0.0, step=0)
    saved = of_network(find_states({"q_state": state(network)}).tensors, "q_state")
    filled = fill_tree(now, saved, "q_state")
    assert (filled.step, filled.apply_fn) == (3, now.apply_fn)
    assert filled.params["params"]["Dense_0"]["kernel"].tolist() == [[1.0], [1.0]]
    assert isinstance(filled.opt_state[0], Moments)
    assert now.params["params"]["Dense_0"]["kernel"].tolist() == [[0.0], [0.0]]


def test_an_array_that_does_not_fit_is_named(jax):
    with pytest.raises(Mismatch, match=r"'s': w is \(2,\) in the checkpoint and \(3,\) now"):
        fill_tree({"w": np.ones(3)}, {"w": torch.ones(2)}, "s")
    with pytest.raises(Mismatch, match="'s': w is missing in the checkpoint"):
        fill_tree({"w": np.ones(3)}, {}, "s")


CLASSES = {"q_network": "QNetwork"}
STATES = {"q_state": "q_network"}


@pytest.fixture
def script(jax_stand_in, definitions, scripts):
    made = definitions(scripts / "climb_jax.py", CLASSES, env_id="CartPole-v1")
    yield made
    made.envs.close()


def tensors(inputs=4):
    kernel = torch.arange(inputs * 2, dtype=torch.float32).reshape(inputs, 2)
    own = {"kernel": kernel, "bias": torch.tensor([0.5, -0.5])}
    return {
        **{f"q_state.params.params.Dense_0.{name}": value for name, value in own.items()},
        **{f"q_state.target_params.params.Dense_0.{name}": -value for name, value in own.items()},
        "q_state.atoms": torch.tensor([1.0, 2.0]),
    }


def test_a_module_of_the_script_gives_what_its_parameters_say(script):
    made, problems = make_jax_networks(script, CLASSES, STATES, tensors())
    assert problems == []
    observations = torch.tensor([[1.0, 0.0, 2.0, 0.0]])
    assert made["q_network"](observations).tolist() == [[0 + 2 * 4 + 0.5, 1 + 2 * 5 - 0.5]]
    assert made["q_network"].atoms.tolist() == [1.0, 2.0]
    family = family_of(made, [])
    assert family.name == "Q-learning"
    assert family.actor(made, script.envs.single_action_space)(observations, True).tolist() == [1]


def test_other_shapes_are_named(script):
    made, problems = make_jax_networks(script, CLASSES, STATES, tensors(inputs=3))
    assert made == {}
    (problem,) = problems
    assert problem.endswith("that was saved: params.Dense_0.kernel is (3, 2) in the checkpoint and (4, 2) now")


def test_a_state_without_a_network_reports_what_the_script_would_have_to_offer(script):
    _, problems = make_jax_networks(script, {"agent_state": "TrainState"}, {"agent_state": ""}, {})
    assert "must have a flax module among its globals" in problems[0]


def test_paths_become_dictionaries_in_dictionaries():
    tree = tree_of({"a.b": np.ones(1), "a.c.d": np.zeros(1), "e": np.ones(2)})
    assert (list(tree), list(tree["a"]), tree["a"]["c"]["d"].tolist()) == (["a", "e"], ["b", "c"], [0.0])
