"""SAC and TD3 with tiny networks, and batches for them, for tests of one update."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.buffers.replay_rows import copy_rows
from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.torch_off_policy import TensorBatch
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import DiscreteSpec
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

if TYPE_CHECKING:
    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer

SMALL: dict[str, Any] = {"steps_per_iteration": 20, "learning_starts": 10, "buffer_size": 200, "batch_size": 8}


def config_of(
    algorithm: str, env: str = "Pendulum-v1", *, settings: dict[str, Any] | None = None, **config: Any
) -> TrainConfig:
    """The torch implementation with the settings given and networks of 5-4 units."""
    policy = {"graph": "mlp", "settings": {"hidden": [5, 4]}, **config.pop("policy", {})}
    words = {"algorithm": algorithm, "env": env, "engine": "torch", "total_steps": 1000, "policy": policy, **config}
    return TrainConfig.model_validate({**words, algorithm: {**SMALL, **(settings or {})}})


def build(*arguments: Any, **words: Any) -> Any:
    return new_training_state(config_of(*arguments, **words)).algorithm


def draw_batch(algorithm: Any, seed: int = 0, count: int = 8) -> TensorBatch:
    """Of vectors; the second transition ends its episode."""
    rng = np.random.default_rng(seed)
    space = algorithm.interface.action_space
    size = algorithm.interface.observation_space.size

    def normal(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=(1, count, *shape)).astype(np.float32))

    is_discrete = isinstance(space, DiscreteSpec)
    drawn = rng.integers(0, space.count, (1, count)) if is_discrete else rng.uniform(-1, 1, (1, count, space.size))
    discounts = torch.full((1, count), 0.99)
    discounts[0, 1] = 0
    actions = torch.from_numpy(drawn if is_discrete else drawn.astype(np.float32))
    return TensorBatch(normal(size), actions, normal(), normal(size), discounts)


def copied(network: Any, tower: str, head: str) -> nn.Sequential:
    """A graph's tower and head as plain layers with copies of its weights."""
    layers: list[nn.Module] = []
    for layer in [*network.nodes[tower].layers, network.nodes[head].layer]:
        plain = nn.Linear(layer.in_features, layer.out_features)
        plain.load_state_dict(layer.state_dict())
        layers += [plain, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def assert_equal_weights(network: Any, tower: str, head: str, plain: nn.Sequential) -> None:
    ours = [*network.nodes[tower].layers, network.nodes[head].layer]
    theirs = [layer for layer in plain if isinstance(layer, nn.Linear)]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.weight, other.weight, atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(one.bias, other.bias, atol=2e-6, rtol=1e-5)


class Anything(gymnasium.Env[Any, Any]):
    """Observations at random, of an image or of named parts; two continuous actions with other bounds, or choices."""

    OBSERVATIONS: ClassVar[dict[str, spaces.Space[Any]]] = {
        "image": spaces.Box(0, 255, (10, 10, 3), np.uint8),
        "parts": spaces.Dict({"goal": spaces.Box(-50.0, 50.0, (2,), np.float32), "door": spaces.Discrete(3)}),
    }

    def __init__(self, kind: str = "parts", *, is_discrete: bool = False) -> None:
        self.observation_space = self.OBSERVATIONS[kind]
        box = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
        self.action_space = spaces.Discrete(3, start=5) if is_discrete else box

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), float(np.sum(action)), False, False, {}


for name in Anything.OBSERVATIONS:
    entry = f"{__name__}:Anything"
    gymnasium.register(f"actors/{name.title()}-v0", entry, max_episode_steps=7, kwargs={"kind": name})
    discrete = {"kind": name, "is_discrete": True}
    gymnasium.register(f"actors/Discrete{name.title()}-v0", entry, max_episode_steps=7, kwargs=discrete)


def trained(config: TrainConfig, iterations: int, group: Group = ALONE) -> Any:
    """The state after so many iterations."""
    state = new_training_state(config, group)
    go_on(state, iterations)
    return state


def go_on(state: Any, iterations: int) -> Any:
    """The last report."""
    return [report for _, report in zip(range(iterations), train(state), strict=False)][-1]


def resumed(state: Any, other: Any, fresh: tuple[str, ...] = (), *, with_rows: bool = True) -> Any:
    """`other` goes on where `state` is; entries in `fresh` stay as they were. `with_rows`: of the replay buffer."""
    own, saved = other.capture(), state.capture()
    other.algorithm.policy().load_state_dict(deepcopy(state.algorithm.policy().state_dict()))

    def load_rows(buffer: ReplayBuffer) -> bool:
        if with_rows:
            copy_rows(state.algorithm.buffer, buffer)
        return with_rows

    other.restore({**saved, **{name: own[name] for name in fresh}}, load_rows)
    return other


def numbers_of(state: Any) -> list[float]:
    """Weights of the actor, of critics and of all targets."""
    tensors = state.algorithm.tensors
    blocks = [tensors.optimizer.flat, tensors.critics.optimizer.flat, tensors.critics.target.flat]
    blocks.append(tensors.temperature.log_alpha if state.algorithm.name == "sac" else tensors.target.flat)
    return [float(number) for number in torch.cat(blocks)]
