from __future__ import annotations

import importlib.util
import math
import sys
from collections import Counter

import pytest

from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import MissingExtra, UsageError
from palaestra.sweeps.methods import (
    MIN_TRIALS,
    ListedSettings,
    grid_settings,
    importances,
    is_worse_half,
    open_method,
    random_settings,
    size_of,
)
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.space import Choices, Range
from palaestra.sweeps.store import Trial


def plan(method):
    return plan_sweep(SweepConfig(parameters={"ppo.gamma": "0.9..0.99:3"}, method=method))


def test_a_list_is_followed_by_the_number_of_trials_so_far():
    method = ListedSettings(({"a": 1}, {"a": 2}))
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


COLOUR, NUMBER = Choices("colour", ("red", "blue")), Range("number", 1, 3, is_whole=True)
RATE = Range("rate", 1e-5, 1e-1, is_log=True)


def test_a_grid_has_every_combination_once():
    found = grid_settings((COLOUR, NUMBER))
    assert [(one["colour"], one["number"]) for one in found] == [
        (colour, number) for colour in ("red", "blue") for number in (1, 2, 3)
    ]


def test_a_grid_beyond_reason_is_refused_with_its_size():
    with pytest.raises(UsageError, match="10,000 points"):
        grid_settings((Range("a", 1, 100, is_whole=True), Range("b", 1, 100, is_whole=True)))


def test_the_same_seed_draws_the_same_and_more_trials_begin_with_the_fewer():
    few, many = random_settings((RATE, COLOUR), 7, 5), random_settings((RATE, COLOUR), 7, 50)
    assert many[:5] == few == random_settings((RATE, COLOUR), 7, 5)
    assert random_settings((RATE, COLOUR), 8, 5) != few


def test_nothing_is_drawn_twice_and_a_small_space_is_used_up():
    assert Counter(map(str, random_settings((COLOUR, NUMBER), 0, 6))) == Counter(
        map(str, grid_settings((COLOUR, NUMBER)))
    )
    assert len(random_settings((COLOUR, NUMBER), 0, 100)) == size_of((COLOUR, NUMBER)) == 6


def test_a_logarithmic_range_is_drawn_evenly_over_its_decades():
    decades = Counter(math.floor(math.log10(one["rate"])) for one in random_settings((RATE,), 0, 1000))
    assert all(abs(decades[decade] - 250) < 60 for decade in (-5, -4, -3, -2))


def test_a_range_of_numbers_has_no_end():
    assert size_of((RATE, COLOUR)) == math.inf


def trials_with(*values, tenth=2):
    return [Trial(number, {}, curve={tenth: value}) for number, value in enumerate(values, start=1)]


def stopped(trials, *, is_minimized=False):
    return [one.number for one in trials if is_worse_half(one, trials, is_minimized=is_minimized)]


def test_the_worse_half_at_a_rung_is_stopped():
    assert stopped(trials_with(1, 2, 3, 4)) == [1, 2]
    assert stopped(trials_with(1, 2, 3, 4), is_minimized=True) == [3, 4]
    assert stopped(trials_with(5, 4, 3, 2, 1)) == [4, 5]


def test_nobody_is_evaluated_before_enough_have_come_so_far():
    assert stopped(trials_with(*range(MIN_TRIALS - 1))) == []


def test_of_equals_nobody_is_worse():
    assert stopped(trials_with(7, 7, 7, 7, 7)) == []


@pytest.mark.parametrize("tenth", [1, 3, 5, 6, 7, 9])
def test_between_rungs_nobody_is_evaluated(tenth):
    assert stopped(trials_with(1, 2, 3, 4, tenth=tenth)) == []


def test_a_trial_is_evaluated_where_it_stands_now():
    ahead = Trial(1, {}, curve={2: 0.0, 4: 9.0})  # a slow start that was survived
    others = [Trial(number, {}, curve={2: 5.0, 4: float(number)}) for number in range(2, 6)]
    assert not is_worse_half(ahead, [ahead, *others], is_minimized=False)
    assert is_worse_half(others[0], [ahead, *others], is_minimized=False)
