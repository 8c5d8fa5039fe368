import math

import numpy as np
import pytest

from palaestra.analysis.curves import CELLS, Grid, make_charts, resample_buckets
from palaestra.analysis.targets import find_targets, group_runs
from palaestra.core.errors import NotFound
from palaestra.runs.metrics.reader import Bucket

RETURN = "charts/episodic_return"


def charts_of(*targets, metrics=()):
    return make_charts(group_runs(find_targets(targets)), metrics)


def one_curve(*targets):
    (chart,) = charts_of(*targets)
    (curve,) = chart.curves
    return curve


def test_few_points_come_back_as_they_are(make_run):
    make_run("first").measure(RETURN, [(0, 1.0), (1, 5.0), (2, 3.0)])
    curve = one_curve("first")
    assert (curve.steps, curve.mean, curve.least, curve.most) == ((0, 1, 2), (1, 5, 3), (1, 5, 3), (1, 5, 3))
    assert (curve.low, curve.counts, curve.runs) == ((None,) * 3, (1, 1, 1), ("first",))


def test_no_spike_is_lost_however_many_points_there_are(make_run):
    points = [(step * 7, math.sin(step / 50)) for step in range(5_000)]
    points[1234] = (1234 * 7, 99.0)
    points[4321] = (4321 * 7, -77.0)
    make_run("first").measure(RETURN, points)
    curve = one_curve("first")
    assert len(curve.steps) <= CELLS
    assert (max(curve.most), min(curve.least)) == (99.0, -77.0)
    assert abs(curve.steps[curve.most.index(99.0)] - 1234 * 7) <= 5_000 * 7 / CELLS
    assert np.mean(curve.mean) == pytest.approx(np.mean([value for _, value in points]), abs=0.01)


def test_the_mean_of_a_group_is_over_runs_and_its_band_holds_them(make_run):
    for seed in range(4):
        make_run(f"ppo-{seed}", seed=seed).measure(RETURN, [(step, step + seed) for step in range(10)])
    curve = one_curve(*(f"ppo-{seed}" for seed in range(4)))
    assert curve.mean == pytest.approx([step + 1.5 for step in range(10)])
    assert curve.least == pytest.approx(range(10))
    assert curve.most == pytest.approx(range(3, 13))
    assert all(low < mean < high for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True))
    assert curve.counts == (4,) * 10


def test_a_run_that_is_not_so_far_counts_as_far_as_it_is(make_run):
    make_run("ppo-1", seed=1).measure(RETURN, [(step, 0.0) for step in range(10)])
    make_run("ppo-2", seed=2).measure(RETURN, [(step, 8.0) for step in range(5)])
    curve = one_curve("ppo-1", "ppo-2")
    assert curve.counts == (2,) * 5 + (1,) * 5
    assert curve.mean == (4.0,) * 5 + (0.0,) * 5
    assert curve.low[5:] == (None,) * 5


def test_runs_with_points_at_other_steps_are_joined_by_straight_lines():
    grid = Grid(0, 4)
    run_curve = resample_buckets([Bucket(0, 0, 0.0, 0.0, 0.0, 1), Bucket(4, 4, 8.0, 8.0, 8.0, 1)], grid)
    assert run_curve.mean.tolist() == [0, 2, 4, 6, 8]
    assert resample_buckets([Bucket(3, 3, 5.0, 5.0, 5.0, 1)], grid).mean.tolist()[3] == 5
    assert np.isnan(resample_buckets([Bucket(3, 3, 5.0, 5.0, 5.0, 1)], grid).mean[[0, 1, 2, 4]]).all()


def test_groups_share_the_steps_of_their_cells(make_run):
    make_run("one", a=1).measure(RETURN, [(step, 0.0) for step in range(0, 4_000, 3)])
    make_run("two", a=2).measure(RETURN, [(step, 1.0) for step in range(500, 1_000, 2)])
    (chart,) = charts_of("one", "two")
    first, second = chart.curves
    assert set(second.steps) <= set(first.steps)
    assert 20 <= len(second.steps) <= 30


def test_nan_is_a_gap_and_infinity_is_no_point(make_run):
    make_run("first").measure(RETURN, [(0, 1.0), (1, float("nan")), (2, float("inf")), (3, 1.0)])
    curve = one_curve("first")
    assert curve.mean == (1, 1, 1, 1)


def test_the_metrics_that_are_requested_are_drawn(make_run):
    run = make_run("first")
    run.measure("losses/entropy", [(0, 1.0)])
    run.measure(RETURN, [(0, 1.0)])
    assert [chart.metric for chart in charts_of("first", metrics=["losses/entropy"])] == ["losses/entropy"]
    assert [chart.metric for chart in charts_of("first")] == [RETURN]
    with pytest.raises(NotFound, match="Did you mean 'losses/entropy'"):
        charts_of("first", metrics=["losses/entropi"])


def test_a_run_without_metrics_has_no_curve(make_run):
    make_run("first")
    assert charts_of("first") == ()
