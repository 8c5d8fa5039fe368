import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.queue import find_placements, sort_queue, used_resources
from palaestra.daemon.run_entry import RunEntry, Submission, SubmissionOptions


def entry(sequence, cpus=1, gpus=0, memory=0, priority=0, state=RunState.QUEUED, devices=()):
    record = RunRecord(f"{sequence:026d}", f"n{sequence}", "script", "", state, 0.0)
    submission = Submission(sequence, 1, Resources(cpus, gpus, memory), SubmissionOptions(priority))
    return RunEntry(record, submission, devices)


def sequences(placements):
    return [location.entry.submission.sequence for location in placements]


@pytest.mark.fault("G14")
def test_the_order_is_priority_then_acceptance_independent_of_the_clock():
    waiting = [entry(3), entry(1), entry(2, priority=1), entry(4, state=RunState.RUNNING)]
    assert [one.submission.sequence for one in sort_queue(waiting)] == [2, 1, 3]


def test_a_run_without_a_submission_is_never_queued():
    assert sort_queue([RunEntry(entry(1).record, None)]) == []


def test_as_many_start_as_fit():
    placements = find_placements([entry(1), entry(2), entry(3)], [], Resources(2, 0, 0))
    assert sequences(placements) == [1, 2]


def test_a_run_that_does_not_fit_reserves_its_resources():
    """The wide one waits for both cores; the narrow one behind it must not take one of them for ever."""
    running = [entry(9, state=RunState.RUNNING)]
    assert sequences(find_placements([entry(1, cpus=2), entry(2)], running, Resources(2, 0, 0))) == []


def test_a_run_that_waits_for_a_gpu_holds_back_others_only_by_its_cpus():
    running = [entry(9, gpus=1, state=RunState.RUNNING, devices=(0,))]
    waiting = [entry(1, gpus=1), entry(2), entry(3)]
    assert sequences(find_placements(waiting, running, Resources(3, 1, 0))) == [2]


def test_a_run_without_local_resources_always_starts():
    crowded = [entry(9, cpus=5, state=RunState.RUNNING)]
    assert sequences(find_placements([entry(1), entry(2, cpus=0)], crowded, Resources(2, 0, 0))) == [2]


def test_a_gpu_is_assigned_to_one_run():
    running = [entry(9, gpus=1, state=RunState.RUNNING, devices=(1,))]
    placements = find_placements([entry(1, gpus=1), entry(2, gpus=1)], running, Resources(9, 3, 0))
    assert [location.gpus for location in placements] == [(0,), (2,)]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 100)), max_size=12),
    st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 200)),
)
def test_resources_are_never_exceeded(requests, machine):
    has = Resources(*machine)
    placements = find_placements([entry(number, *wish) for number, wish in enumerate(requests)], [], has)
    used = used_resources([location.entry for location in placements])
    assert used.cpus <= has.cpus
    assert used.gpus <= has.gpus
    assert used.memory_mb <= has.memory_mb
    devices = [device for location in placements for device in location.gpus]
    assert len(set(devices)) == len(devices)
