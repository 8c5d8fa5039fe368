from pathlib import Path

import pytest

from palaestra.core.trials import SlotsWanted, TrialEnd, TrialOrder


def test_orders_and_ends_are_values_that_nobody_can_change():
    order = TrialOrder("lr-t1", "{}", Path("x.log"))
    assert order == TrialOrder("lr-t1", "{}", Path("x.log"))
    for value, name in ((order, "job"), (TrialEnd("a", 0), "exit_code"), (SlotsWanted(None), "count")):
        with pytest.raises(AttributeError):
            setattr(value, name, 3)


def test_by_default_a_trial_takes_one_thread_and_no_gpu():
    assert SlotsWanted(2) == SlotsWanted(count=2, cpus_each=1, gpus_each=0.0)
