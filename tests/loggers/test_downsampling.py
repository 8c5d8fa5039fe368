from __future__ import annotations

import csv
import json
import math
import random
from statistics import fmean

import pytest

from palaestra.core.episodes import EpisodeColumns
from palaestra.core.metrics_logger import Sample
from palaestra.loggers.csv import CsvLogger
from palaestra.loggers.downsampling import (
    SINGLE_ITERATIONS,
    Downsampler,
    OpenInterval,
    interval_length,
    summarize_episodes,
)
from palaestra.loggers.fanout import LoggerFanout
from palaestra.loggers.store import MetricsStoreLogger
from palaestra.runs.metrics.reader import MetricsReader

STEPS = 100  # of an iteration
SINGLE = 8


def make_samples(count: int, seed: int = 0) -> list[Sample]:
    """An entropy each, at times a return and two episodes."""
    rng = random.Random(seed)
    samples = []
    for iteration in range(1, count + 1):
        step, returns = iteration * STEPS, [rng.gauss(0, 10) for _ in range(rng.choice([0, 0, 2]))]
        samples.append(
            Sample(
                step=step,
                metrics={"entropy": rng.random(), **({"return": fmean(returns)} if returns else {})},
                timings={"speed": rng.random()},
                episodes=EpisodeColumns([0, 1], returns, [20, 30], [True, False], step) if returns else (),
                at=float(iteration),
                iteration=iteration,
            )
        )
    return samples


def downsampler(**settings) -> Downsampler:
    return Downsampler(single_iterations=SINGLE, **settings)


def test_a_short_training_is_written_as_it_is():
    samples = make_samples(SINGLE)
    assert list(downsampler().take(samples)) == samples


def test_a_training_of_an_hour_at_full_speed_has_some_thousand_rows():
    iterations, rows, iteration = 1_080_000_000 // 256, 0, 1
    while iteration <= iterations:
        rows, iteration = rows + 1, iteration + interval_length(iteration)
    assert SINGLE_ITERATIONS < rows < 14_000


def test_an_interval_is_never_longer_than_a_thousandth_of_the_training():
    """So that a chart of all of it looks the same."""
    for iteration in range(SINGLE_ITERATIONS + 1, 100 * SINGLE_ITERATIONS, 321):
        assert 1 < interval_length(iteration) <= iteration / (SINGLE_ITERATIONS / 2)


def test_every_iteration_is_in_one_interval_with_its_mean_and_extremes():
    samples = make_samples(1000)
    begin = 0
    for row in downsampler().take(samples):
        length = 1 if row.interval is None else row.interval.iterations
        own = samples[begin : begin + length]
        begin += length
        assert (row.step, row.at) == (own[-1].step, own[-1].at)
        for name in ("entropy", "return", "speed"):
            values = [{**one.metrics, **one.timings}[name] for one in own if name in {**one.metrics, **one.timings}]
            assert (name in {**row.metrics, **row.timings}) == bool(values)
            if row.interval is not None and values:
                assert row.interval.first_step == own[0].step
                assert row.interval.ranges[name] == (min(values), max(values), len(values), 0)
                assert {**row.metrics, **row.timings}[name] == pytest.approx(fmean(values), rel=1e-12)
    assert begin == 1000 - 1000 % interval_length(1000, SINGLE)


def test_the_episodes_of_an_interval_are_counted_with_their_extremes():
    samples = make_samples(16)[SINGLE:]
    summaries = [row.episode_summary for row in downsampler().take(samples)]
    assert [row.episodes for row in downsampler().take(samples)] == [()] * 4
    for location, summary in enumerate(summaries):
        episodes = [one for sample in samples[2 * location : 2 * location + 2] for one in sample.episodes]
        if not episodes:
            assert summary is None
            continue
        returns = [one.total_reward for one in episodes]
        assert (summary.episode_count, summary.terminated_count) == (len(episodes), len(episodes) // 2)
        assert (summary.return_min, summary.return_max) == (min(returns), max(returns))
        assert summary.return_mean == pytest.approx(fmean(returns))
        assert (summary.length_mean, summary.length_min, summary.length_max) == (25.0, 20, 30)
    assert any(summaries)


def test_beyond_so_many_episodes_they_are_summarized_also_where_iterations_are_single():
    samples = [one for one in make_samples(SINGLE * 4) if one.episodes]
    rows = list(Downsampler(single_iterations=1024, single_episodes=3).take(samples))
    assert [len(row.episodes) for row in rows] == [2, 2] + [0] * (len(rows) - 2)
    assert [row.episode_summary is None for row in rows] == [True, True] + [False] * (len(rows) - 2)
    assert [row.metrics for row in rows] == [sample.metrics for sample in samples]


def test_numbers_that_are_not_finite_are_counted_apart():
    values = [math.nan, 3.0, math.inf, -1.0]
    samples = [
        Sample(step, {"a": value, "b": math.nan}, iteration=3 * SINGLE - 7 + step) for step, value in enumerate(values)
    ]
    (row,) = downsampler().take(samples)
    assert row.metrics["a"] == 1.0
    assert row.interval.ranges["a"] == (-1.0, 3.0, 2, 2)
    assert math.isnan(row.metrics["b"])
    assert row.interval.ranges["b"][2:] == (0, 4)


def test_an_evaluation_is_written_at_once_and_as_it_is():
    evaluation = Sample(400, {"eval/episodic_return": 7.0})
    filled, rest = make_samples(SINGLE + 2)[SINGLE:]
    assert next(iter(downsampler().take([filled, evaluation, rest]))) is evaluation


def test_switched_off_it_writes_every_value_and_first_what_a_session_before_left_open():
    samples = make_samples(SINGLE + 3)
    before = downsampler()
    assert len(list(before.take(samples[: SINGLE + 1]))) == SINGLE
    off = downsampler(is_on=False)
    off.restore(before.capture())
    rows = list(off.take(samples[SINGLE + 1 :]))
    assert [row.step for row in rows] == [sample.step for sample in samples[SINGLE:]]
    assert rows[1:] == samples[SINGLE + 1 :]


def open_loggers(folder) -> LoggerFanout:
    folder.mkdir(exist_ok=True)

    def on_dropped(name, error):
        raise AssertionError(name) from error

    loggers = LoggerFanout(on_dropped, Downsampler(single_iterations=SINGLE, single_episodes=6))
    loggers.add("metrics", lambda: MetricsStoreLogger(folder / "metrics.db"))
    loggers.add("csv", lambda: CsvLogger(folder / "metrics.csv"))
    return loggers


def rows_of(folder):
    with MetricsReader(folder / "metrics.db") as reader:
        rows = reader.rows()
    with (folder / "metrics.csv").open(newline="") as file:
        return rows, list(csv.DictReader(file))


@pytest.mark.parametrize("seed", range(8))
def test_stopped_killed_and_resumed_at_random_the_rows_are_those_of_a_training_that_never_stopped(tmp_path, seed):
    rng, samples = random.Random(seed), make_samples(200, seed)
    with open_loggers(tmp_path / "whole") as loggers:
        loggers.write(*samples)
    done, saved = 0, {}
    while done < len(samples):
        loggers = open_loggers(tmp_path / "resumed")
        loggers.restore(saved)
        loggers.rewind(done * STEPS)
        done = min(len(samples), done + rng.randrange(30))
        begin = saved.get("done", 0)
        loggers.write(*samples[begin:done])
        saved = json.loads(json.dumps({**loggers.capture(), "done": done}))
        if done < len(samples):
            loggers.write(*samples[done : done + rng.randrange(10)])  # lost with the kill, or taken back
        loggers.close()
    assert rows_of(tmp_path / "resumed") == rows_of(tmp_path / "whole")
    assert len(rows_of(tmp_path / "whole")[1]) < 60


def test_an_evaluation_within_an_interval_that_is_filled_again_stays(tmp_path):
    evaluation = Sample((SINGLE + 1) * STEPS, {"eval/episodic_return": 7.0})
    samples = make_samples(SINGLE + 4)
    with open_loggers(tmp_path / "run") as loggers:
        loggers.write(*samples[: SINGLE + 1], evaluation)
        saved = loggers.capture()
    with open_loggers(tmp_path / "run") as loggers:
        loggers.restore(saved)
        loggers.rewind((SINGLE + 1) * STEPS)
        loggers.write(*samples[SINGLE + 1 :])
    with MetricsReader(tmp_path / "run" / "metrics.db") as reader:
        assert [point.value for point in reader.series("eval/episodic_return")] == [7.0]
        assert [point.step // STEPS for point in reader.series("entropy")] == [*range(1, SINGLE + 1), 10, 12]


def filled(*values: float) -> OpenInterval:
    interval = OpenInterval(10)
    for location, value in enumerate(values):
        interval.add(Sample(10 + location, {"a": value}))
    return interval


def test_a_mean_lies_between_its_extremes_also_where_the_sum_is_beyond_all_bounds():
    sample = filled(1.7e308, 1.7e308, 1.6e308).sample()
    assert 1.6e308 <= sample.metrics["a"] <= 1.7e308


def test_it_goes_on_from_what_was_saved_with_the_same_bits(episode_maker):
    values = [0.1, 0.7, 1e17, -3.3, math.nan]
    whole, begun = filled(*values), filled(*values[:2])
    begun = OpenInterval.restored(json.loads(json.dumps(begun.capture())))
    for location, value in enumerate(values[2:], start=12):
        begun.add(Sample(location, {"a": value}))
    for interval in (whole, begun):
        interval.add(Sample(15, {}, episodes=(episode_maker(3.0, 15),)))
    assert begun.sample() == whole.sample()


def test_what_was_saved_does_not_change_when_more_is_added():
    interval = filled(1.0)
    saved = interval.capture()
    interval.add(Sample(11, {"a": 5.0}))
    assert OpenInterval.restored(saved).sample().metrics == {"a": 1.0}


def test_episodes_are_summarized_by_return_and_length(episode_maker):
    summary = summarize_episodes([episode_maker(3.0, 1, length=5), episode_maker(-1.0, 2, length=9)])
    assert summary == pytest.approx((2, 2, 1.0, -1.0, 3.0, 7.0, 5, 9))
