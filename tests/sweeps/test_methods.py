import importlib.util
import sys

import pytest

from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import MissingExtra
from palaestra.sweeps.methods import Listed, importances, open_method
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.trial import Trial


def plan(method):
    return plan_sweep(SweepConfig(parameters={"ppo.gamma": "0.9..0.99:3"}, method=method))


def test_a_list_is_followed_by_the_number_of_trials_so_far():
    method = Listed(({"a": 1}, {"a": 2}))
    trials = []
    while (settings := method.next_settings(trials)) is not None:
        trials.append(Trial(len(trials) + 1, settings))
    assert [trial.settings["a"] for trial in trials] == [1, 2]


def test_a_grid_is_known_beforehand_and_optuna_decides_as_it_goes():
    assert open_method(plan("grid")).next_settings([]) == {"ppo.gamma": 0.9}
    assert plan("optuna").listed == ()
    assert 0.9 <= open_method(plan("optuna")).next_settings([])["ppo.gamma"] <= 0.99


def test_without_optuna_its_extra_is_named_and_everything_else_works(monkeypatch):
    monkeypatch.setattr(
        "palaestra.sweeps.methods.find_spec", lambda name: None if name == "optuna" else importlib.util.find_spec(name)
    )
    with pytest.raises(MissingExtra, match=r"palaestra\[sweep\]"):
        open_method(plan("optuna"))
    assert open_method(plan("grid")).next_settings([])
    assert importances(plan("grid"), []) == {}


def test_a_grid_does_not_load_optuna():
    before = "optuna" in sys.modules
    open_method(plan("grid"))
    assert ("optuna" in sys.modules) == before
