from __future__ import annotations

import pytest

from palaestra.contracts.sink import Sample
from palaestra.sinks.status import StatusBoard


def test_the_last_return_is_the_mean_over_at_most_100_episodes(header, episode_maker):
    board = StatusBoard(header)
    for number in range(250):
        board.take(Sample(number, {}, episodes=(episode_maker(float(number), number, length=number),)))
    status = board.status()
    assert status.last_return == pytest.approx(sum(range(150, 250)) / 100)
    assert status.last_length == pytest.approx(199.5)
    assert status.episode_count == 250


def test_what_is_not_known_yet_is_none(header):
    status = StatusBoard(header).status()
    assert (status.last_return, status.steps_per_second, status.seconds_left, status.evaluation) == (None,) * 4


def test_time_left_comes_from_the_rate_and_the_steps_that_remain(header, samples):
    board = StatusBoard(header)
    board.take(samples[3])
    assert board.status().seconds_left == (5120 - 2048) / 1000.0
    assert board.status().share_done == 0.4


def test_time_is_split_over_the_phases(header, samples):
    board = StatusBoard(header)
    for sample in samples:
        board.take(sample)
    assert dict(board.status().phase_shares) == pytest.approx({"rollout": 0.6, "learn": 0.3, "other": 0.1})


def test_a_sample_without_losses_keeps_the_last_ones(header, samples):
    board = StatusBoard(header)
    board.take(samples[0])
    board.take(Sample(512, {"eval/episodic_return": 480.0}))
    assert board.status().evaluation == (512, 480.0)
    assert board.status().policy_loss == -0.0123


def test_a_run_that_goes_on_from_an_earlier_step_shows_that_step(header, samples):
    board = StatusBoard(header)
    board.take(samples[5])
    board.forget_after(1024)
    assert board.status().step == 1024
