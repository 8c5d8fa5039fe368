import math

import pytest

from palaestra.sweeps.methods import random_settings
from palaestra.sweeps.optuna_search import OptunaMethod
from palaestra.sweeps.space import Choices, Range
from palaestra.sweeps.store import Trial, TrialState

RATE = Range("rate", 1e-6, 1.0, is_log=True)
LAYERS = Range("layers", 1, 4, is_whole=True)
KIND = Choices("kind", ([1, 2], "flat", None))
SPACE = (RATE, LAYERS, KIND)


def worth(settings):
    """Best at a rate of 1e-3; the rest matters little."""
    return -abs(math.log10(settings["rate"]) + 3) + 0.01 * settings.get("layers", 0)


def searched(count, method, trials=()):
    trials = list(trials)
    while len(trials) < count:
        settings = method.next_settings(trials)
        trials.append(Trial(len(trials) + 1, settings, TrialState.FINISHED, worth(settings)))
    return trials


def method(seed=0, space=SPACE):
    return OptunaMethod(space, seed, is_minimized=False)


def test_suggestions_lie_in_the_space_and_are_of_its_kinds():
    for trial in searched(15, method()):
        assert 1e-6 <= trial.settings["rate"] <= 1.0
        assert trial.settings["layers"] in (1, 2, 3, 4)
        assert trial.settings["kind"] in ([1, 2], "flat", None)


def test_the_same_history_gives_the_same_suggestion_whoever_asks():
    whole = searched(16, method())
    for cut in (0, 5, 12):
        assert searched(16, method(), whole[:cut]) == whole
    assert searched(16, method(seed=1)) != whole


def test_it_finds_a_better_rate_than_chance_does():
    """Over five seeds: how far the best of 40 is from the optimum, in decades, on average."""
    learned = [max(worth(trial.settings) for trial in searched(40, method(seed, (RATE,)))) for seed in range(5)]
    drawn = [max(map(worth, random_settings((RATE,), seed, 40))) for seed in range(5)]
    assert sum(learned) / 5 > sum(drawn) / 5
    assert sum(learned) / 5 > -0.05


def test_trials_that_run_failed_or_were_stopped_are_part_of_the_history():
    trials = [
        Trial(1, {"rate": 0.1, "layers": 1, "kind": None}),
        Trial(2, {"rate": 0.2, "layers": 2, "kind": "flat"}, TrialState.FAILED, reason="NaN"),
        Trial(3, {"rate": 0.3, "layers": 2, "kind": "flat"}, TrialState.PRUNED, 1.0, {2: 0.5, 4: 1.0}),
    ]
    assert method().next_settings(trials) == method().next_settings(trials)


def test_nothing_is_suggested_twice_and_a_small_space_comes_to_an_end():
    small = method(space=(Choices("a", (1, 2)), Range("b", 1, 3, is_whole=True)))
    trials = []
    while (settings := small.next_settings(trials)) is not None:
        trials.append(Trial(len(trials) + 1, settings, TrialState.FINISHED, 1.0))
    assert sorted((one.settings["a"], one.settings["b"]) for one in trials) == [
        (a, b) for a in (1, 2) for b in (1, 2, 3)
    ]


def test_the_key_that_matters_is_reported_to_matter():
    shares = method().importances(searched(40, method()))
    assert sum(shares.values()) == pytest.approx(1)
    assert max(shares, key=shares.get) == "rate"


def test_of_too_little_nothing_is_reported():
    assert method().importances(searched(3, method())) == {}
    same = [Trial(n, {"rate": 0.1, "layers": 1, "kind": None}, TrialState.FINISHED, 1.0) for n in range(1, 20)]
    assert method().importances(same) == {}
