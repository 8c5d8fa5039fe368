import pytest

import evaluation


def test_the_time_of_a_training_ends_with_its_last_iteration_and_not_with_the_last_judgement():
    samples = [(512, 10.0), (1024, 11.0), (512, 11.5), (1536, 12.0), (1024, 40.0), (1536, 90.0)]
    assert evaluation.training_span(samples) == 2.0


def test_the_page_says_what_two_bring_over_one_and_what_judging_costs():
    result = {
        "rounds": 3,
        "episodes": 16,
        "steps": 1000,
        "cores": 2,
        "load_before": 0.5,
        "episodes_per_second": {"1": [1.0, 2.0, 9.0], "2": [3.0, 3.6, 4.0]},
        "training_seconds": {"alone": [10.0], "judged": [10.05]},
    }
    text = evaluation.page(result)
    assert "Two over one: **1.80**" in text
    assert "Judged over alone: **+0.5%**" in text


@pytest.mark.slow
def test_a_small_try_measures_both(tmp_path):
    rates = evaluation.measure_workers(1, 2)
    assert all(rate > 0 for found in rates.values() for rate in found)
    assert evaluation.training_seconds(tmp_path, "small", 0, 1024) > 0
