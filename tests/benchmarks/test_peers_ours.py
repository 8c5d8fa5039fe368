"""Our side, as it is measured: a whole `palaestra train` in a process of its own."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from peers.catalogue import OURS, PEERS
from peers.running import measure
from peers.settings import CLEANRL


@pytest.mark.slow
def test_a_training_of_ours_is_measured_from_its_own_metrics():
    setting = replace(CLEANRL, total_steps=20 * 512, warm_up_updates=8)
    found = measure(PEERS[OURS], setting, seconds=60.0, seed=1, python=Path(sys.executable))
    assert found.failed == ""
    assert found.measured_steps == 12 * 512  # after eight to warm up
    assert 0 < found.measured_seconds < found.process_seconds
    assert 0 < found.start_seconds < found.process_seconds
    assert found.memory_mb > 50
    assert found.versions["palaestra"]


@pytest.mark.slow
def test_a_training_that_is_refused_is_named_with_the_reason():
    setting = replace(CLEANRL, minibatch_size=100)
    found = measure(PEERS[OURS], setting, seconds=60.0, seed=1, python=Path(sys.executable))
    assert "ended with 1" in found.failed
    assert found.steps_per_second is None
