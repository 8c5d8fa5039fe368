import gymnasium
import numpy as np
import pytest
import torch

from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.build import build_network, build_policy
from palaestra.policies.library.fast import FastPolicy
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

MODULE = "palaestra.policies.library.fast:FastPolicy"
SETTINGS = {"channels": 4, "kernel": 3, "size": 16}
BYTES = {"dtype": "uint8", "low": (0.0,), "high": (255.0,)}


class Blinker(gymnasium.Env):
    """A light wanders over a small grid; naming its column is rewarded, and some episodes end early."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, 5, 6), np.uint8)
    action_space = gymnasium.spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action):
        reward = float(action == self.column)
        return self._look(), reward, bool(self.np_random.random() < 0.15), False, {}

    def _look(self):
        picture = np.zeros((2, 5, 6), np.uint8)
        row, self.column = self.np_random.integers(5), self.np_random.integers(6)
        picture[self.np_random.integers(2), row, self.column] = 255
        return picture


gymnasium.register("tests/Blinker-v0", Blinker)


def by_hand(name):
    """A weight of the graph under the name that the class has for it."""
    return name.replace("nodes.", "").replace(".layer.", ".").replace("memory.cell.", "memory.")


def config(**policy):
    return TrainConfig(
        env=EnvConfig(id="tests/Blinker-v0"),
        policy=PolicyConfig(settings=SETTINGS, **policy),
        ppo=PpoConfig(env_count=4, horizon=8, minibatch_size=16, update_epochs=2),
        total_steps=4 * 8 * 10,
        seed=3,
    )


def test_the_graph_and_the_class_have_the_same_weights_and_give_the_same():
    interface = EnvInterface(BoxSpec((3, 7, 8), **BYTES), DiscreteSpec(5))
    graph = build_policy(PolicyConfig(graph="fast", settings=SETTINGS), interface)
    written = build_policy(PolicyConfig(module=MODULE, settings=SETTINGS), interface)
    weights = {by_hand(name): value for name, value in graph.state_dict().items()}
    written.load_state_dict(weights, strict=True)
    observation = torch.randint(0, 256, (5, 3, 3, 7, 8), dtype=torch.uint8)
    starts = torch.rand(5, 3) < 0.4
    ours, theirs = (each(observation, each.initial_memory(3), starts) for each in (graph, written))
    torch.testing.assert_close(ours.value, theirs.value)
    torch.testing.assert_close(ours.distribution.log_probs, theirs.distribution.log_probs)
    torch.testing.assert_close(ours.memory, theirs.memory)


def test_ten_updates_leave_them_equal():
    states = [new_training_state(config(graph="fast")), new_training_state(config(module=MODULE))]
    graph, written = states
    start = {by_hand(name): value.clone() for name, value in graph.algorithm.policy().state_dict().items()}
    written.algorithm.policy().load_state_dict(start, strict=True)
    reports = [list(train(state)) for state in states]
    assert [len(each) for each in reports] == [10, 10]
    for name, value in graph.algorithm.policy().state_dict().items():
        torch.testing.assert_close(value, written.algorithm.policy().state_dict()[by_hand(name)], atol=1e-6, rtol=1e-5)
        assert not torch.equal(value, start[by_hand(name)]), f"{name} learned nothing"
    for one, other in zip(*reports, strict=True):
        assert one.update.policy_loss == pytest.approx(other.update.policy_loss, abs=1e-6)


def test_both_kinds_take_the_same_settings():
    interface = EnvInterface(BoxSpec((3, 7, 8), **BYTES), DiscreteSpec(5))
    for kind in ({"graph": "fast"}, {"module": MODULE}):
        network = build_network(PolicyConfig(settings={"size": 24}, **kind), interface)
        assert all(part.shape == (1, 24) for part in network.initial_memory(1).values())
        with pytest.raises(
            UsageError, match="policy.settings.sise is not a setting of this policy. Did you mean 'size'"
        ):
            build_network(PolicyConfig(settings={"sise": 24}, **kind), interface)


def test_continuous_actions_have_a_deviation_to_learn():
    actions = BoxSpec((2,), "float32", (-1.0,), (1.0,))
    policy = FastPolicy(EnvInterface(BoxSpec((8, 9, 3), **BYTES), actions), FastPolicy.Settings())
    observation = torch.zeros(1, 2, 8, 9, 3, dtype=torch.uint8)
    policy(observation, policy.initial_memory(2)).distribution.entropy().sum().backward()
    assert policy.log_std.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("space", "settings", "words"),
    [
        (BoxSpec((4,)), {}, "FastPolicy needs pictures"),
        (
            BoxSpec((2, 4, 9), **BYTES),
            {"kernel": 5},
            "kernel=5 does not fit into pictures of 4 x 9. Set it to at most 4",
        ),
    ],
)
def test_what_it_cannot_read_is_refused_with_what_to_do(space, settings, words):
    with pytest.raises(UsageError) as refused:
        FastPolicy(EnvInterface(space, DiscreteSpec(2)), FastPolicy.Settings(**settings))
    assert words in str(refused.value)
