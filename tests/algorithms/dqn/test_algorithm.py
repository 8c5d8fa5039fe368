from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.base import Progress
from tests.algorithms.actors import build

EXPLORATION = {"start": 1.0, "end": 0.1, "fraction": 0.5}


@pytest.fixture
def dqn():
    return build("dqn", env="CartPole-v1", settings={"exploration": EXPLORATION, "target_interval": 30})


def test_epsilon_falls_in_a_line_to_its_end_and_stays_there(dqn):
    found = [dqn.epsilon(Progress(0, steps, 1000)) for steps in (0, 250, 500, 1000)]
    assert found == pytest.approx([1.0, 0.55, 0.1, 0.1])


def test_beta_rises_to_one_over_the_training():
    dqn = build("dqn", env="CartPole-v1", settings={"prioritized": {"enabled": True, "beta": 0.4}})
    assert [dqn.beta(Progress(0, steps, 1000)) for steps in (0, 500, 1000, 1500)] == pytest.approx([0.4, 0.7, 1.0, 1.0])


def test_the_target_follows_once_for_each_multiple_of_its_interval(dqn, monkeypatch):
    followed = []
    monkeypatch.setattr(dqn, "update_target", followed.append)
    dqn.after_steps(Progress(0, 25, 1000), Progress(0, 95, 1000))  # 30, 60, 90
    assert followed == [1.0] * 3


def test_random_actions_come_from_the_stream_of_their_step(dqn):
    now = Progress(0, 0, 1000)
    assert np.array_equal(dqn.explore(dqn.buffer.current, now), dqn.random_actions(now))  # epsilon is 1
