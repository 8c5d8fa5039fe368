from palaestra.sweeps.trial import Trial, TrialState, best_of, ranking

FINISHED = TrialState.FINISHED


def trial(number, value, state=FINISHED):
    return Trial(number, {}, state, value)


def test_the_best_is_the_highest_or_the_lowest_as_asked():
    trials = [trial(1, 3.0), trial(2, 9.0), trial(3, -1.0)]
    assert best_of(trials, is_minimized=False) == trials[1]
    assert best_of(trials, is_minimized=True) == trials[2]


def test_only_a_finished_trial_can_be_best():
    trials = [trial(1, 99.0, TrialState.PRUNED), trial(2, None, TrialState.FAILED), trial(3, 0.0)]
    assert best_of(trials, is_minimized=False) == trials[2]
    assert best_of(trials[:2], is_minimized=False) is None
    assert best_of([], is_minimized=False) is None


def test_of_equals_the_first_is_best():
    assert best_of([trial(1, 5.0), trial(2, 5.0)], is_minimized=False).number == 1


def test_the_ranking_has_the_best_first_and_the_unknown_last():
    trials = [
        trial(1, None, TrialState.RUNNING),
        trial(2, 5.0, TrialState.PRUNED),
        trial(3, 1.0),
        trial(4, 2.0),
        trial(5, None, TrialState.FAILED),
    ]
    assert [one.number for one in ranking(trials, is_minimized=False)] == [4, 3, 2, 1, 5]
    assert [one.number for one in ranking(trials, is_minimized=True)] == [3, 4, 2, 1, 5]


def test_only_a_running_trial_is_not_over():
    assert [state for state in TrialState if not state.is_over] == [TrialState.RUNNING]
