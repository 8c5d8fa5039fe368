"""Training on from a checkpoint in an environment that names features differently."""

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.config.policy import PolicyConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, FeatureSpec
from palaestra.policies.build import build_policy
from palaestra.policies.warm_start import WarmStart, build_agent
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

MLP = PolicyConfig(graph="mlp", settings={"hidden": [8]})


def interface(*names: str, size: int = 4) -> EnvInterface:
    features = tuple(FeatureSpec(name, index) for index, name in enumerate(names))
    return EnvInterface(BoxSpec((size,)), DiscreteSpec(2), features)


def origin_of(agent, **changes) -> WarmStart:
    return WarmStart(agent.interface, "older:3", agent.state_dict(), "mlp", **changes)


def values(agent, *rows) -> torch.Tensor:
    """One row of numbers per environment, [1, B, size]."""
    with torch.no_grad():
        return agent(torch.tensor([rows]), {}).value[0]


def test_without_an_origin_the_policy_is_a_fresh_one_for_this_environment():
    env = interface("near", "far")
    assert build_agent(MLP, env, None).interface == env


def test_permuted_ids_are_translated_and_the_weights_are_the_origins():
    old = build_policy(MLP, interface("near", "far", "left", "right"))
    torch.manual_seed(7)
    agent = build_agent(MLP, interface("right", "near", "far", "left"), origin_of(old))
    assert torch.equal(values(agent, [4.0, 1.0, 2.0, 3.0]), values(old, [1.0, 2.0, 3.0, 4.0]))
    assert agent.interface.features == old.interface.features, "what is saved keeps the ids that were learned"


def test_a_new_feature_takes_a_free_id_and_is_learned():
    old = build_policy(MLP, interface("near", "far", "left"))  # entry 3 has no name
    env = interface("laser", "near", "far", "left")
    agent = build_agent(MLP, env, origin_of(old))
    assert {feature.name: feature.id for feature in agent.interface.features} == {
        "near": 0,
        "far": 1,
        "left": 2,
        "laser": 3,
    }
    agent(torch.tensor([[[9.0, 0.0, 0.0, 0.0]]]), {}).value.sum().backward()
    first_layer = agent.network.nodes["critic"].layers[0].weight
    assert first_layer.grad[:, 3].abs().sum() > 0
    assert first_layer.grad[:, :3].abs().sum() == 0


def test_a_new_feature_without_a_free_id_is_masked():
    old = build_policy(MLP, interface("near", "far", "left", "right"))
    agent = build_agent(MLP, interface("near", "far", "left", "right", "laser", size=5), origin_of(old))
    seen = values(agent, [1.0, 2.0, 3.0, 4.0, 9.0], [1.0, 2.0, 3.0, 4.0, 0.0])
    assert seen[0] == seen[1]
    assert torch.allclose(seen[:1], values(old, [1.0, 2.0, 3.0, 4.0]))


def test_without_names_the_spaces_must_be_the_same():
    old = build_policy(MLP, interface())
    assert build_agent(MLP, interface(), origin_of(old)).feature_map is None
    with pytest.raises(UsageError, match="trained with the observation space"):
        build_agent(MLP, interface(size=5), origin_of(old))


def test_weights_of_another_policy_are_refused_with_its_name():
    old = build_policy(MLP, interface())
    other = PolicyConfig(graph="mlp", settings={"hidden": [16]})
    with pytest.raises(UsageError, match=r"initial_weights=older:3 do not fit.*policy=mlp"):
        build_agent(other, interface(), origin_of(old))


class Named(gymnasium.Env):
    """Four numbers, called as `order` says; the one that is called `near` is paid."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, order=("near", "far", "left", "right")) -> None:
        self.order = list(order)
        self.feature_specs = [FeatureSpec(name, index) for index, name in enumerate(self.order)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action):
        reward = float(self.signs["near"] * (1 if action else -1))
        return self._look(), reward, bool(self.np_random.random() < 0.2), False, {}

    def _look(self):
        self.signs = dict(zip(sorted(self.order), self.np_random.uniform(-1, 1, 4), strict=True))
        return np.array([self.signs[name] for name in self.order], np.float32)


gymnasium.register("tests/Named-v0", Named)


def config(order, **changes) -> TrainConfig:
    settings = {
        "engine": "torch",  # whatever it has to translate
        "total_steps": 64 * 4,
        "env": {"id": "tests/Named-v0", "kwargs": {"order": order}},
        "policy": {"graph": "mlp", "normalize_observations": True},
        "ppo": {"env_count": 4, "horizon": 16, "minibatch_size": 32},
    }
    return TrainConfig.model_validate({**settings, **changes})


def test_training_on_learns_the_same_whatever_the_ids_are():
    """The same seed, the same numbers under the same names: the same weights, to the last bit, after four updates."""
    usual, shuffled = ["near", "far", "left", "right"], ["right", "far", "near", "left"]
    old = new_training_state(config(usual, seed=5))
    for _ in train(old):
        pass
    ends = []
    for order in (usual, shuffled):
        state = new_training_state(config(order), warm_start=origin_of(old.algorithm.policy()))
        for _ in train(state):
            pass
        ends.append(state.algorithm.policy())
    assert ends[0].feature_map is None
    assert ends[1].feature_map is not None
    for name, value in ends[0].state_dict().items():
        assert torch.equal(value, ends[1].state_dict()[name]), name
        assert name.endswith("count") or not torch.equal(value, old.algorithm.policy().state_dict()[name]), (
            f"{name} did not learn"
        )


def test_the_pull_to_the_initial_weights_is_to_those_of_the_origin():
    asked = config(["near", "far", "left", "right"], ppo={"regularize": {"l2_init": 1.0}})
    old = new_training_state(config(["near", "far", "left", "right"], seed=5))
    state = new_training_state(asked, warm_start=origin_of(old.algorithm.policy()))
    assert torch.equal(state.algorithm.tensors.optimizer.capture()["initial"], old.algorithm.tensors.optimizer.flat)
