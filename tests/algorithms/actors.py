"""SAC and TD3 with tiny networks, and batches for them, for tests of one update."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from palaestra.algorithms.torch_off_policy import TensorBatch
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import DiscreteSpec
from palaestra.training.state import new_training_state

SMALL: dict[str, Any] = {"steps_per_iteration": 20, "learning_starts": 10, "buffer_size": 200, "batch_size": 8}


def build(algorithm: str, env: str = "Pendulum-v1", *, settings: dict[str, Any] | None = None, **config: Any) -> Any:
    """The torch implementation with the settings given and networks of 5-4 units."""
    policy = {"graph": "mlp", "settings": {"hidden": [5, 4]}, **config.pop("policy", {})}
    words = {"algorithm": algorithm, "env": env, "engine": "torch", "total_steps": 1000, "policy": policy, **config}
    state = new_training_state(TrainConfig.model_validate({**words, algorithm: {**SMALL, **(settings or {})}}))
    return state.algorithm


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
