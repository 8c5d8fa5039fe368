from pathlib import Path

import pytest

from palaestra.core.trials import SlotRequest, TrialRequest, TrialResult


def test_orders_and_ends_are_values_that_nobody_can_change():
    order = TrialRequest("lr-t1", "{}", Path("x.log"))
    assert order == TrialRequest("lr-t1", "{}", Path("x.log"))
    for value, name in ((order, "job"), (TrialResult("a", 0), "exit_code"), (SlotRequest(None), "count")):
        with pytest.raises(AttributeError):
            setattr(value, name, 3)


def test_by_default_a_trial_takes_one_thread_and_no_gpu():
    assert SlotRequest(2) == SlotRequest(count=2, cpus_each=1, gpus_each=0.0)
