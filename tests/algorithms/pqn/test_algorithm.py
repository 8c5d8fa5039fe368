from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.base import Progress
from palaestra.config.train import TrainConfig
from palaestra.training.state import new_training_state

SETTINGS = {"env_count": 4, "horizon": 8, "minibatch_size": 8, "update_epochs": 2}


@pytest.fixture
def pqn():
    words = {"algorithm": "pqn", "engine": "torch", "env": "CartPole-v1", "total_steps": 1000, "pqn": SETTINGS}
    return new_training_state(TrainConfig.model_validate(words)).algorithm


def test_each_sample_is_in_one_minibatch_of_an_epoch_and_every_epoch_has_an_order_of_its_own(pqn):
    first, second = (np.concatenate(pqn.minibatches(0, epoch)) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(32))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, np.concatenate(pqn.minibatches(0, 0)))
    assert {len(part) for part in pqn.minibatches(3, 1)} == {8}


def test_at_the_first_step_all_actions_are_random_and_no_network_runs(pqn):
    def never():
        raise AssertionError("epsilon is 1")

    actions = pqn.explore(Progress(0, 0, 1000), 0, never)
    assert actions.shape == (4,)
    assert set(actions.tolist()) <= {0, 1}


def test_at_the_end_most_actions_are_greedy(pqn):
    greedy = np.full(4, 1)
    taken = [pqn.explore(Progress(30, 960, 1000), step, lambda: greedy) for step in range(200)]
    assert np.mean(taken) == pytest.approx(1 - 0.05 / 2, abs=0.02)
