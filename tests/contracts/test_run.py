import pytest

from palaestra.contracts.run import MOVES, RunState


def test_every_state_has_its_moves_and_every_move_leads_to_a_state():
    assert set(MOVES) == set(RunState)
    assert set().union(*MOVES.values()) <= set(RunState)


@pytest.mark.parametrize("state", RunState)
def test_only_a_run_that_is_over_can_be_started_again(state):
    assert (RunState.RUNNING in MOVES[state]) == (state.is_over or state is RunState.QUEUED)


def test_every_state_can_be_reached_from_queued():
    reached, fresh = {RunState.QUEUED}, {RunState.QUEUED}
    while fresh:
        fresh = set().union(*(MOVES[state] for state in fresh)) - reached
        reached |= fresh
    assert reached == set(RunState)
