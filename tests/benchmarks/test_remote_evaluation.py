import pytest
import remote_evaluation

RESULT = {
    "checkpoints": 200,
    "evaluations": 1000,
    "done": 999,
    "episodes": 5000,
    "retries": 1,
    "seconds": 50.0,
    "evaluations_per_second": 19.98,
    "memory_before_mb": 280.0,
    "memory_most_mb": 300.4,
    "memory_after_mb": 299.6,
    "driver_most_mb": 110.0,
    "summary_mb": 0.66,
    "listing_ms": {"the run's evaluations": 12.4},
    "cores": 2,
    "load_before": 0.5,
}


def test_the_page_says_what_was_requested_what_was_done_and_what_it_weighed():
    text = remote_evaluation.page(RESULT)
    assert "| evaluations asked for, and done | 1000, 999 |" in text
    assert "| evaluations a second | 20.0 |" in text
    assert "| memory of the asking process before, at most, after | 280, 300, 300 MB |" in text
    assert "| the run's evaluations | 12 ms |" in text
    assert "load before it began 0.5" in text


@pytest.mark.full
@pytest.mark.slow
def test_a_small_try_measures_all_of_it():
    result = remote_evaluation.measure(checkpoints=2, episodes=1)
    assert (result["evaluations"], result["done"], result["episodes"]) == (10, 10, 10)
    assert result["driver_most_mb"] > 0
    assert all(milliseconds > 0 for milliseconds in result["listing_ms"].values())
