from __future__ import annotations

import pytest

from palaestra.algorithms.ppo import torch_ppo
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NonFinite
from palaestra.training.state import new_training_state
from palaestra.training.trainer import is_due, train

CONFIG = TrainConfig(total_steps=300, ppo={"env_count": 2, "horizon": 50, "minibatch_size": 50})


def test_it_yields_one_report_per_iteration_until_the_steps_are_taken():
    reports = list(train(new_training_state(CONFIG)))
    assert [(report.iteration, report.env_steps) for report in reports] == [(1, 100), (2, 200), (3, 300)]


def test_a_state_that_is_done_yields_nothing():
    state = new_training_state(CONFIG)
    list(train(state))
    assert list(train(state)) == []


def test_episodes_carry_the_step_at_which_they_were_counted_and_their_env():
    reports = list(train(new_training_state(CONFIG)))
    episodes = [(report, episode) for report in reports for episode in report.episodes]
    assert len(episodes) > 4
    assert all(episode.env_step == report.env_steps for report, episode in episodes)
    assert {episode.env_index for _, episode in episodes} == {0, 1}
    assert all(episode.total_reward == episode.length for _, episode in episodes)  # CartPole pays 1 a step


def test_statistics_of_observations_change_only_after_the_update(monkeypatch):
    """What the update sees must be what the rollout saw; the first iteration runs on the identity."""
    policy = CONFIG.policy.model_copy(update={"normalize_observations": True})
    config = CONFIG.model_copy(update={"policy": policy, "engine": "torch"})
    state = new_training_state(config)
    moments = state.algorithm.policy().observation_normalizer.parts["part_"].moments
    seen_by_update = []
    real_update = torch_ppo.update

    def spying_update(*arguments, **options):
        seen_by_update.append(float(moments.count))
        return real_update(*arguments, **options)

    monkeypatch.setattr(torch_ppo, "update", spying_update)
    list(train(state))
    assert seen_by_update == [0.0, 100.0, 200.0]
    assert float(moments.count) == 300.0


@pytest.mark.fault("R9")
def test_a_value_that_is_not_finite_stops_at_that_update_and_says_so(monkeypatch):
    state = new_training_state(CONFIG)
    reports = train(state)
    next(reports)
    before = state.algorithm.tensors.optimizer.flat.detach().clone()
    state.algorithm.buffer.rows[0][:] = float("nan")
    with pytest.raises(NonFinite, match="Update 2 was stopped before its step: .* observation"):
        next(reports)
    assert bool((state.algorithm.tensors.optimizer.flat == before).all())


def test_every_multiple_fires_once_when_counting_by_one():
    fired = [after for after in range(1, 21) if is_due(5, after - 1, after)]
    assert fired == [5, 10, 15, 20]


def test_a_counter_that_jumps_over_a_multiple_still_fires():
    assert is_due(5, 3, 8)
    assert is_due(5, 4, 21)
    assert not is_due(5, 5, 9)


def test_interval_zero_never_fires():
    assert not any(is_due(0, before, before + 3) for before in range(20))
