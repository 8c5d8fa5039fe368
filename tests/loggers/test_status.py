from __future__ import annotations

from dataclasses import replace

import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.loggers.status import FIGURES, Figure, StatusTracker, StepRate


def test_the_last_return_is_the_mean_over_at_most_100_episodes(header, episode_maker):
    board = StatusTracker(header)
    for number in range(250):
        board.take(Sample(number, {}, episodes=(episode_maker(float(number), number, length=number),)))
    status = board.status()
    assert status.last_return == pytest.approx(sum(range(150, 250)) / 100)
    assert status.last_length == pytest.approx(199.5)
    assert status.episode_count == 250


def test_what_is_not_known_yet_is_none(header):
    status = StatusTracker(header).status()
    assert (status.last_return, status.steps_per_second, status.seconds_left, status.evaluation) == (None,) * 4


def test_time_left_comes_from_the_rate_and_the_steps_that_remain(header, samples):
    board = StatusTracker(header)
    board.take(samples[3])
    assert board.status().seconds_left == (5120 - 2048) / 1000.0
    assert board.status().share_done == 0.4


def test_time_is_split_over_the_phases(header, samples):
    board = StatusTracker(header)
    for sample in samples:
        board.take(sample)
    assert dict(board.status().phase_shares) == pytest.approx({"rollout": 0.6, "learn": 0.3, "other": 0.1})


def test_a_sample_without_losses_keeps_the_last_ones(header, samples):
    board = StatusTracker(header)
    board.take(samples[0])
    board.take(Sample(512, {"eval/episodic_return": 480.0}))
    assert board.status().evaluation == (512, 480.0)
    assert board.status().figures[0] == Figure("policy loss", -0.0123)


@pytest.mark.parametrize("algorithm", FIGURES)
def test_the_figures_are_those_that_the_algorithm_reports(header, algorithm):
    board = StatusTracker(replace(header, algorithm=algorithm))
    board.take(Sample(1, {name: float(number) for number, (_, name) in enumerate(FIGURES[algorithm])}))
    status = board.status()
    assert [(figure.label, figure.value) for figure in status.figures] == [
        (label, float(number)) for number, (label, _) in enumerate(FIGURES[algorithm])
    ]
    assert [figure.label for figure in status.figures if figure.is_count] == [
        label for label, _ in FIGURES[algorithm] if label == "replay buffer"
    ]
    assert all(figure.value is None or figure.label for figure in status.line_figures)


def test_a_run_that_goes_on_from_an_earlier_step_shows_that_step(header, samples):
    board = StatusTracker(header)
    board.take(samples[5])
    board.drop_after(1024)
    assert board.status().step == 1024


def test_tasks_are_gathered_from_their_metrics_and_absent_without_a_curriculum(header):
    board = StatusTracker(header)
    assert (board.status().tasks_completed, board.status().tasks) == (None, ())
    shares = {"tasks/easy/share": 0.25, "tasks/far/walls/share": 0.75, "tasks/completed": 7.0}
    board.take(Sample(1, {**shares, "tasks/easy/return": 3.0}, timings={"charts/tasks_per_second": 2.5}))
    board.take(Sample(2, {**shares, "tasks/completed": 9.0}))
    status = board.status()
    assert (status.tasks_completed, status.tasks_per_second) == (9, 2.5)
    assert [(task.name, task.share, task.last_return) for task in status.tasks] == [
        ("easy", 0.25, 3.0),  # what was known stays, though it was not played in the last iteration
        ("far/walls", 0.75, None),
    ]


def test_a_resumed_run_does_not_count_the_steps_of_earlier_sessions(clock):
    rate = StepRate(clock, first_step=1_000_000)
    clock.seconds += 2.0
    assert rate.update(1_000_400) == 200.0


def test_the_rate_follows_the_last_seconds_not_the_whole_run(clock):
    rate = StepRate(clock, first_step=0, window_seconds=10.0)
    step = 0
    for steps_per_second in (100, 100, 100, 5000, 5000, 5000):
        for _ in range(10):
            clock.seconds += 1.0
            step += steps_per_second
            latest = rate.update(step)
    assert latest == 5000.0


def test_no_time_passed_is_no_division_by_zero(clock):
    assert StepRate(clock, first_step=0).update(10) == 0.0


def test_one_long_iteration_still_gives_a_rate(clock):
    rate = StepRate(clock, first_step=0, window_seconds=10.0)
    clock.seconds += 100.0
    assert rate.update(1000) == 10.0
