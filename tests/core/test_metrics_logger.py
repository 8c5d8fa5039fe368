from palaestra.core.metrics_logger import Sample


def test_what_can_be_reproduced_is_separated_from_timings():
    sample = Sample(step=1, metrics={"loss": 0.5}, timings={"seconds": 2.0})
    assert sample.metrics.keys().isdisjoint(sample.timings)
    assert sample == Sample(step=1, metrics={"loss": 0.5}, timings={"seconds": 2.0})
