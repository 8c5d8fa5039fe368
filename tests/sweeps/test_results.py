import math

import pytest

from palaestra.core.errors import UsageError
from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunState
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.sweeps.results import check_metric, curve_of, points_of, value_of


def test_the_score_is_the_last_evaluation_and_the_return_what_the_run_says(leave):
    run = leave("one", value=10.0)
    assert value_of(run, "score") == 10.0
    assert value_of(run, "return") == 5.0
    assert value_of(run, "charts/episodic_return") == 5.0


def test_a_run_without_the_metric_has_no_value_rather_than_zero(leave):
    run = leave("one")
    assert value_of(run, "charts/nothing") is None
    run.metrics_file.unlink()
    assert value_of(run, "score") is None
    assert points_of(run, "score") == []


def test_nan_is_no_value(leave):
    run = leave("one")
    with MetricsWriter(run.metrics_file) as writer:
        writer.write(Sample(2000, {"eval/episodic_return": math.nan}))
    assert value_of(run, "score") is None


def test_a_curve_has_the_tenths_that_are_complete_and_not_the_end(leave):
    assert curve_of(leave("whole"), "score", 1000) == {tenth: pytest.approx(tenth) for tenth in range(1, 10)}
    half = leave("half", RunState.CANCELLED, reached=0.5)
    assert list(curve_of(half, "score", 1000)) == [1, 2, 3, 4, 5]


def test_a_tenth_without_a_new_value_has_the_one_before(leave):
    run = leave("one")
    with MetricsWriter(run.metrics_file) as writer:
        writer.rewind(-1)
        writer.write(Sample(250, {"eval/episodic_return": 7.0}))
        writer.write(Sample(510, {"eval/episodic_return": 9.0}))
    assert curve_of(run, "score", 1000) == {3: 7.0, 4: 7.0, 5: 7.0, 6: 9.0, 7: 9.0, 8: 9.0, 9: 9.0}


def test_a_metric_that_cannot_be_is_refused_before_anything_runs():
    assert check_metric("losses/entropy") == "losses/entropy"
    with pytest.raises(UsageError, match="Did you mean 'score'"):
        check_metric("scor")
