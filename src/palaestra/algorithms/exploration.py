"""Epsilon-greedy exploration of DQN and PQN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palaestra.algorithms.counter_rng import CounterRng
    from palaestra.config.dqn import ExplorationConfig

EPSILON_STREAM = "epsilon"  # of the draws that decide whether an action is random
ACTION_STREAM = "exploration"  # of the random actions


def epsilon_at(config: ExplorationConfig, fraction: float) -> float:
    """`fraction` of training, 0 to 1: a straight line from `start` to `end`, then `end`."""
    done = min(fraction / config.fraction, 1.0)
    return config.start + (config.end - config.start) * done


def epsilon_greedy(
    epsilon: float, is_random: CounterRng, random_actions: NDArray[Any], greedy: Callable[[], NDArray[Any]]
) -> NDArray[Any]:
    """[B] `random_actions` with probability epsilon, drawn for each environment; no network runs if all are random."""
    explores = is_random.uniform(len(random_actions)) < np.float32(epsilon)
    return random_actions if explores.all() else np.where(explores, random_actions, greedy())
