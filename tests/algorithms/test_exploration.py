"""Epsilon-greedy exploration."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.counter_rng import CounterRng
from palaestra.algorithms.exploration import epsilon_at, epsilon_greedy
from palaestra.config.dqn import ExplorationConfig

RANDOM, GREEDY = np.zeros(10_000, np.int64), np.ones(10_000, np.int64)


def test_epsilon_falls_in_a_straight_line_and_stays():
    config = ExplorationConfig(start=1.0, end=0.1, fraction=0.5)
    assert [epsilon_at(config, done) for done in (0, 0.25, 0.5, 0.9, 1.2)] == pytest.approx([1, 0.55, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_that_share_of_the_actions_is_random(epsilon):
    actions = epsilon_greedy(epsilon, CounterRng(1, 1), RANDOM, lambda: GREEDY)
    assert (actions == 0).mean() == pytest.approx(epsilon, abs=0.02)


def test_nothing_is_random_at_zero_and_no_network_runs_at_one():
    def fail():
        raise AssertionError("the network was asked")

    assert (epsilon_greedy(0.0, CounterRng(1, 1), RANDOM, lambda: GREEDY) == 1).all()
    assert (epsilon_greedy(1.0, CounterRng(1, 1), RANDOM, fail) == 0).all()
