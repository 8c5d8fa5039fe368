"""Every short run gives the weights, metrics, evaluations and schemes that were recorded before."""

import json

import pytest

from tests.golden.cases import CASES, RECORDED, play, processor

pytestmark = pytest.mark.slow

RECORDS = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("name", CASES)
def test_results_are_the_recorded_ones(name, tmp_path):
    if processor() not in RECORDS:
        pytest.skip(f"nothing is recorded for {processor()}: python -m tests.golden.record at a commit that is right")
    assert play(CASES[name], tmp_path) == RECORDS[processor()][name]
