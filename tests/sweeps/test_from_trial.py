import pytest

from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.sweeps.from_trial import find_trial
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.store import SweepStore
from palaestra.sweeps.trial import Trial, TrialState


@pytest.fixture
def root(tmp_path):
    for name, values in (("lr", (5.0, 9.0, None)), ("unfinished", (None, None, None))):
        asked = SweepConfig(
            name=name, recipe="cartpole", parameters={"ppo.gamma": "0.1,0.2,0.3"}, settings={"total_steps": 1000}
        )
        plan = plan_sweep(asked)
        SweepStore(tmp_path).enter(plan.config).write_trials(
            [
                Trial(number, plan.listed[number - 1], TrialState.FINISHED if value else TrialState.FAILED, value)
                for number, value in enumerate(values, start=1)
            ]
        )
    return tmp_path


@pytest.mark.parametrize(
    ("selector", "sweep", "trial", "gamma"),
    [
        ("lr:best", "", "lr:2", 0.2),
        ("best", "lr", "lr:2", 0.2),
        ("lr:3", "", "lr:3", 0.3),
        ("1", "lr", "lr:1", 0.1),
        ("lr:1", "lr", "lr:1", 0.1),
        ("2", "", "unfinished:2", 0.2),
    ],
)
def test_a_trial_is_found_with_all_its_settings(root, selector, sweep, trial, gamma):
    origin = find_trial(root, selector, sweep)
    assert (origin.trial, origin.recipe) == (trial, "cartpole")
    assert origin.settings == {"total_steps": 1000, "ppo.gamma": gamma}


@pytest.mark.parametrize(
    ("selector", "sweep", "error", "said"),
    [
        ("lr:4", "", NotFound, "has no trial '4'"),
        ("lr:0", "", NotFound, "has no trial '0'"),
        ("lr:bets", "", NotFound, "has no trial 'bets'"),
        ("ls:1", "", NotFound, "No sweep named 'ls'"),
        ("bets", "", UsageError, "No trial is selected by 'bets'"),
        ("unfinished:best", "", NotFound, "is finished"),
        ("lr:1", "unfinished", UsageError, "names one sweep"),
    ],
)
def test_a_trial_that_is_not_there_is_refused(root, selector, sweep, error, said):
    with pytest.raises(error) as caught:
        find_trial(root, selector, sweep)
    assert said in str(caught.value)
