"""Trainings of one off-policy algorithm with both engines, for tests that compare them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import palaestra.testing.envs  # noqa: F401  registers the tiny environments
from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.buffers.replay_rows import copy_rows
from palaestra.config.train import TrainConfig
from palaestra.training.state import TrainingState, new_training_state
from palaestra.training.trainer import train

TOLERANCE = 1e-6
# Of what is not a weight: Adam's first moments have the scale of gradients; of the second, the native kernel rounds
# 1 - beta2 to single precision; a priority is a power below 1 of its TD error, steep where that is small.
TOLERANCES = {"exp_avg": (1e-5, 1e-5), "exp_avg_sq": (2e-5, 1e-5), "leaves": (1e-6, 1e-4)}  # relative, absolute


def begin(engine: str, **settings: Any) -> TrainingState:
    return new_training_state(TrainConfig(**{"engine": engine, "total_steps": 2_000, "seed": 3, **settings}))


def advance(state: TrainingState, iterations: int) -> list[Any]:
    """The reports of that many iterations."""
    reports = train(state)
    return [next(reports) for _ in range(iterations)]


def tensors_in(captured: Any, path: str = "") -> dict[str, np.ndarray]:
    """All tensors of a capture, by where they are."""
    if isinstance(captured, dict):
        found: dict[str, np.ndarray] = {}
        for name, part in captured.items():
            found |= tensors_in(part, f"{path}/{name}")
        return found
    return {path: np.asarray(captured, np.float64)} if isinstance(captured, torch.Tensor | np.ndarray) else {}


def state_of(state: TrainingState) -> dict[str, np.ndarray]:
    """Everything that the engine computes: weights, what `capture` has, and the buffer."""
    algorithm = state.algorithm
    weights = {f"policy/{name}": part for name, part in algorithm.policy().state_dict().items()}
    learning = tensors_in(algorithm.capture())
    buffer = {"rewards": algorithm.buffer.rewards}
    if algorithm.replay_buffer is not None:
        buffer |= {"actions": algorithm.buffer.actions, "ends": algorithm.buffer.ends}
    return {**{name: np.asarray(part, np.float64) for name, part in weights.items()}, **learning, **buffer}


def assert_alike(one: TrainingState, other: TrainingState, tolerance: float = TOLERANCE) -> None:
    first, second = state_of(one), state_of(other)
    assert first.keys() == second.keys()
    for name, part in first.items():
        relative, absolute = TOLERANCES.get(name.rpartition("/")[2], (tolerance, tolerance))
        np.testing.assert_allclose(part, second[name], rtol=relative, atol=absolute, err_msg=name)


def assert_equal(one: TrainingState, other: TrainingState) -> None:
    first, second = state_of(one), state_of(other)
    assert first.keys() == second.keys()
    for name, part in first.items():
        np.testing.assert_array_equal(part, second[name], err_msg=name)


def assert_same_figures(one: list[Any], other: list[Any], tolerance: float = 1e-4) -> None:
    for first, second in zip(one, other, strict=True):
        figures, others = first.update.metrics() | first.metrics, second.update.metrics() | second.metrics
        assert figures.keys() == others.keys()
        for name, value in figures.items():
            np.testing.assert_allclose(value, others[name], rtol=tolerance, atol=tolerance, err_msg=name)
        assert [(end.length, end.terminated) for end in first.episodes] == [
            (end.length, end.terminated) for end in second.episodes
        ]
        rewards, others = ([end.total_reward for end in report.episodes] for report in (first, second))
        np.testing.assert_allclose(rewards, others, rtol=tolerance, atol=tolerance)


def hand_over(begun: TrainingState, continued: TrainingState, *, with_rows: bool = True) -> None:
    """What a checkpoint carries: weights, the trainer's state and the rows of the replay buffer."""

    def load_rows(buffer: ReplayBuffer) -> bool:
        if with_rows:
            copy_rows(begun.algorithm.buffer, buffer)
        return with_rows

    continued.algorithm.policy().load_state_dict(begun.algorithm.policy().state_dict())
    continued.restore(begun.capture(), load_rows)
