import pytest

from palaestra.core.run import MOVES, UPLOADED, JournalEntry, RunRecord, RunRequest, RunState


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


def test_the_words_that_stand_in_files_of_older_runs_stay_as_they_are():
    over = {"finished", "failed", "cancelled", "lost"}
    assert {str(state): state.is_over for state in RunState} == {
        **dict.fromkeys(("queued", "running", "stopping"), False),
        **dict.fromkeys(over, True),
    }
    assert UPLOADED == "upload"


def test_what_nobody_reported_has_its_plain_value():
    requested = RunRequest("native", "cartpole", {})
    assert (requested.name, requested.submitted_by, requested.command, requested.executor, requested.nproc) == (
        "",
        "",
        "",
        "local",
        1,
    )
    record = RunRecord("1", "a", "native", "cartpole", RunState.QUEUED, 1.5)
    assert (record.epoch, record.agent_step, record.total_steps) == (0, 0, 0)
    assert (record.pid, record.exit_code, record.failure, record.summary) == (None, None, "", {})
    entry = JournalEntry(1.5, "run.started")
    assert (entry.level, entry.rank, entry.data) == ("info", 0, {})
