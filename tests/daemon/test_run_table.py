from contextlib import closing
from dataclasses import replace

import pytest

from palaestra.core.errors import NotFound
from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.event_bus import EventBus
from palaestra.daemon.index import Index
from palaestra.daemon.run_entry import RunEntry, Submission
from palaestra.daemon.run_table import RunTable

FIRST, SECOND = "01M7H5H1TJ9XS3KR3PDYDV0001", "01M7H5H1TJ9XS3KR3PDYDV0002"


def entry(run_id, sequence=1, name="", state=RunState.QUEUED):
    return RunEntry(RunRecord(run_id, name or run_id, "script", "", state, 0.0), Submission(sequence, 1, Resources()))


@pytest.fixture
def location(tmp_path):
    return tmp_path / "daemon.db"


@pytest.fixture
def run_table(location):
    with closing(Index(location)) as index:
        yield RunTable(index, EventBus())


def test_accepted_runs_and_the_sequence_number_survive_a_restart(location):
    with closing(Index(location)) as index:
        run_table = RunTable(index, EventBus())
        sequence = run_table.reserve(10)
        run_table.accept(entry(FIRST, sequence))
        run_table.release()
    with closing(Index(location)) as index:
        run_table = RunTable(index, EventBus())
        assert [one.id for one in run_table.all()] == [FIRST]
        assert run_table.reserve(10) == sequence + 1


def test_a_sequence_number_is_never_reused(location):
    with closing(Index(location)) as index:
        run_table = RunTable(index, EventBus())
        run_table.accept(entry(FIRST, run_table.reserve(10)))
        run_table.release()
        run_table.remove(FIRST)
    with closing(Index(location)) as index:
        assert RunTable(index, EventBus()).reserve(10) == 2


def test_a_queue_place_is_reserved_while_a_request_is_accepted(run_table):
    assert run_table.reserve(2) == 1
    assert run_table.reserve(2) == 2
    assert run_table.reserve(2) is None
    run_table.release()
    assert run_table.reserve(2) == 3


def test_a_heartbeat_is_not_written_to_the_index(location):
    with closing(Index(location)) as index:
        run_table = RunTable(index, EventBus())
        run_table.accept(entry(FIRST))
        run_table.update_in_memory(replace(entry(FIRST), is_silent=True))
        assert run_table.find(FIRST).is_silent
    with closing(Index(location)) as index:
        assert RunTable(index, EventBus()).find(FIRST).is_silent is False


def test_runs_are_listed_newest_first(run_table):
    for run_id in (FIRST, SECOND):
        run_table.accept(entry(run_id))
    assert [one.id for one in run_table.all()] == [SECOND, FIRST]


def test_an_ambiguous_prefix_is_refused(run_table):
    run_table.accept(entry(FIRST, name="one"))
    run_table.accept(entry(SECOND, name="two"))
    assert run_table.resolve("one").id == FIRST
    with pytest.raises(NotFound, match="matches 2 runs"):
        run_table.resolve(FIRST[:25])
    with pytest.raises(NotFound, match="Did you mean 'two'"):
        run_table.resolve("twoo")


def test_every_change_is_published(location):
    event_bus = EventBus()
    with closing(Index(location)) as index:
        run_table = RunTable(index, event_bus)
        run_table.accept(entry(FIRST))
        run_table.put(entry(FIRST, state=RunState.RUNNING), "started")
        run_table.update_in_memory(entry(FIRST, state=RunState.RUNNING))
        run_table.remove(FIRST)
        run_table.remove(FIRST)
    assert [one.change for one in event_bus.since(0)] == ["accepted", "started", "changed", "removed"]
