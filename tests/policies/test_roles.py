import pytest

from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.roles import ROLES, algorithms_for, policy_for

VECTOR = BoxSpec((4,))
IMAGE = BoxSpec((36, 36, 3), "uint8", (0.0,), (255.0,))
BOUNDED = BoxSpec((2,), low=(-2.0, -1.0), high=(2.0, 3.0))
SPACES = {
    "discrete": DiscreteSpec(3),
    "multi-discrete": MultiDiscreteSpec((2, 3)),
    "bounded": BOUNDED,
    "unbounded": BoxSpec((2,)),
    "half bounded": BoxSpec((2,), low=(-1.0,), high=(float("inf"),)),
}
ACTING = {"ppo": DiscreteSpec(3), "pqn": DiscreteSpec(3), "dqn": DiscreteSpec(3), "sac": BOUNDED, "td3": BOUNDED}


def resolved(algorithm, *, seen=VECTOR, action=None, **settings):
    config = TrainConfig.model_validate({"algorithm": algorithm, **settings})
    return policy_for(config, EnvInterface(seen, action or ACTING[algorithm]))


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("ppo", {}),
        ("pqn", {"hidden": [120, 84], "activation": "relu", "layer_norm": True, "gain": 2**0.5}),
        ("dqn", {"hidden": [120, 84], "activation": "relu"}),
        ("sac", {"hidden": [256, 256], "activation": "relu"}),
        ("td3", {"hidden": [256, 256], "activation": "relu"}),
    ],
)
def test_the_size_of_mlp_follows_the_algorithm_where_nothing_is_set(algorithm, settings):
    policy = resolved(algorithm)
    assert (policy.graph, policy.role, policy.settings) == ("mlp", ROLES[algorithm], settings)


def test_what_the_user_sets_stands_and_the_rest_follows_the_algorithm():
    policy = resolved("pqn", policy={"graph": "mlp", "settings": {"hidden": [8], "layer_norm": False}})
    assert policy.settings == {"hidden": [8], "activation": "relu", "layer_norm": False, "gain": 2**0.5}


def test_other_graphs_keep_their_own_sizes():
    policy = resolved("dqn", seen=IMAGE)
    assert (policy.graph, policy.settings) == ("cnn", {})


def test_dueling_is_a_setting_of_the_action_head_so_that_checkpoints_have_it():
    policy = resolved("dqn", dqn={"dueling": True}, policy={"graph": "mlp", "settings": {"action": {"gain": 1.0}}})
    assert policy.settings["action"] == {"gain": 1.0, "dueling": True}


def test_dueling_of_a_class_of_ones_own_is_that_classes_matter():
    with pytest.raises(UsageError, match=r"dqn.dueling=true needs a graph"):
        resolved("dqn", dqn={"dueling": True}, policy={"module": "mine:Net"})


@pytest.mark.parametrize(
    ("kind", "algorithms"),
    [
        ("discrete", ["ppo", "pqn", "dqn", "sac"]),
        ("multi-discrete", ["ppo"]),
        ("bounded", ["ppo", "sac", "td3"]),
        ("unbounded", ["ppo"]),
        ("half bounded", ["ppo"]),
    ],
)
def test_each_action_space_has_the_algorithms_that_take_it(kind, algorithms):
    assert algorithms_for(SPACES[kind]) == algorithms
    for algorithm in algorithms:
        assert resolved(algorithm, action=SPACES[kind]).role == ROLES[algorithm]


@pytest.mark.parametrize(
    ("algorithm", "kind", "problem", "hint"),
    [
        ("td3", "discrete", "whose actions are discrete, one of 3", "ppo, pqn, dqn, sac"),
        ("dqn", "bounded", "whose actions are continuous, 2 between -2 and 3", "ppo, sac, td3"),
        ("pqn", "multi-discrete", "several discrete choices", "ppo"),
        ("sac", "unbounded", "needs actions with finite bounds", "algorithm=ppo"),
        ("td3", "half bounded", "continuous, 2 between -1 and inf", "algorithm=ppo"),
    ],
)
def test_an_algorithm_that_does_not_fit_names_those_that_do(algorithm, kind, problem, hint):
    with pytest.raises(UsageError) as caught:
        resolved(algorithm, action=SPACES[kind])
    assert f"algorithm={algorithm}" in caught.value.message
    assert problem in caught.value.message
    assert hint in caught.value.hint
