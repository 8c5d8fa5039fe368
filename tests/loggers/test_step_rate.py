from __future__ import annotations

from palaestra.loggers.step_rate import StepRate


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
