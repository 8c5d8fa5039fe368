import numpy as np
import pytest
import torch

from palaestra.apps.scripts.launcher.families import family_of
from palaestra.apps.scripts.launcher.jax_networks import make_jax_networks, tree_of

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


def test_a_state_without_a_network_tells_what_the_script_would_have_to_offer(script):
    _, problems = make_jax_networks(script, {"agent_state": "TrainState"}, {"agent_state": ""}, {})
    assert "must have a flax module among its globals" in problems[0]


def test_paths_become_dictionaries_in_dictionaries():
    tree = tree_of({"a.b": np.ones(1), "a.c.d": np.zeros(1), "e": np.ones(2)})
    assert (list(tree), list(tree["a"]), tree["a"]["c"]["d"].tolist()) == (["a", "e"], ["b", "c"], [0.0])
