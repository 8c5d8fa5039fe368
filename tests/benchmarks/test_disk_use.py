from __future__ import annotations

import disk_use
import pytest


@pytest.mark.slow
def test_a_training_of_many_iterations_leaves_a_fraction_of_every_value():
    """The longer the run, the smaller the fraction: 0.3 was seen here, at half the length 0.48 to 0.6."""
    fewer, every = (disk_use.measure(60_000 * disk_use.ITERATION_STEPS, downsample=path) for path in (True, False))
    assert fewer["bytes"] < 0.5 * every["bytes"]
    for part in ("metrics", "tensorboard", "curves of the daemon"):
        assert fewer["parts"][part] < 0.5 * every["parts"][part]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_an_hour_of_the_fastest_training_stays_under_a_hundred_megabytes():
    """With room for what grows by the clock: checkpoints, journal and logs."""
    assert disk_use.measure(disk_use.STEPS_PER_HOUR)["bytes"] < 90e6
