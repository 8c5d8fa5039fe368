import pytest

from palaestra.sweeps.pruning import LEAST, is_worse_half
from palaestra.sweeps.trial import Trial


def trials_with(*values, tenth=2):
    return [Trial(number, {}, curve={tenth: value}) for number, value in enumerate(values, start=1)]


def stopped(trials, *, is_minimized=False):
    return [one.number for one in trials if is_worse_half(one, trials, is_minimized=is_minimized)]


def test_the_worse_half_at_a_rung_is_stopped():
    assert stopped(trials_with(1, 2, 3, 4)) == [1, 2]
    assert stopped(trials_with(1, 2, 3, 4), is_minimized=True) == [3, 4]
    assert stopped(trials_with(5, 4, 3, 2, 1)) == [4, 5]


def test_nobody_is_judged_before_enough_have_come_so_far():
    assert stopped(trials_with(*range(LEAST - 1))) == []


def test_of_equals_nobody_is_worse():
    assert stopped(trials_with(7, 7, 7, 7, 7)) == []


@pytest.mark.parametrize("tenth", [1, 3, 5, 6, 7, 9])
def test_between_rungs_nobody_is_judged(tenth):
    assert stopped(trials_with(1, 2, 3, 4, tenth=tenth)) == []


def test_a_trial_is_judged_where_it_stands_now():
    ahead = Trial(1, {}, curve={2: 0.0, 4: 9.0})  # a slow start that was survived
    others = [Trial(number, {}, curve={2: 5.0, 4: float(number)}) for number in range(2, 6)]
    assert not is_worse_half(ahead, [ahead, *others], is_minimized=False)
    assert is_worse_half(others[0], [ahead, *others], is_minimized=False)
