import pytest

import evaluation


def test_an_iteration_ends_with_its_own_sample_and_not_with_that_of_an_evaluation():
    samples = [(512, 10.0), (1024, 11.0), (512, 11.5), (1536, 12.0), (1024, 40.0), (1536, 90.0)]
    assert evaluation.ends_of_iterations(samples) == [10.0, 11.0, 12.0]


def test_iterations_meanwhile_are_compared_with_those_around_and_not_with_that_of_a_checkpoint(monkeypatch):
    monkeypatch.setattr(evaluation, "INTERVAL", 100)
    ends = [float(second) for second in range(11)] + [10 + 1.5 * number for number in range(1, 9)]
    events = [("eval.started", 10.0), ("run.heartbeat", 12.0), ("eval.batch", 19.1)]
    found = evaluation.compare(ends, evaluation.judgements(events))
    assert found == [{"meanwhile": 1.5, "around": 1.0}]


def test_the_page_says_what_two_bring_over_one_and_what_judging_costs():
    result = {
        "rounds": 3,
        "episodes": 16,
        "steps": 1000,
        "cores": 2,
        "load_before": 0.5,
        "episodes_per_second": {"1": [1.0, 2.0, 9.0], "2": [3.0, 3.6, 4.0]},
        "iterations_beside": [{"meanwhile": 0.01005, "around": 0.01}],
    }
    text = evaluation.page(result)
    assert "Two over one: **1.80**" in text
    assert "Over 1 judgements: **+0.5%**" in text


@pytest.mark.full
@pytest.mark.slow
def test_a_small_try_measures_both(monkeypatch):
    rates = evaluation.measure_workers(1, 2)
    assert all(rate > 0 for found in rates.values() for rate in found)
    monkeypatch.setattr(evaluation, "EPISODES_BESIDE", 1)
    found = evaluation.measure_beside(256 * 80)
    assert all(one["meanwhile"] > 0 and one["around"] > 0 for one in found)
