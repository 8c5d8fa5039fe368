from contextlib import closing
from dataclasses import replace

import pytest

from palaestra.core.errors import NotFound
from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.entry import Entry
from palaestra.daemon.index import Index
from palaestra.daemon.news import Newsroom
from palaestra.daemon.roster import Roster
from palaestra.daemon.ticket import Ticket

FIRST, SECOND = "01M7H5H1TJ9XS3KR3PDYDV0001", "01M7H5H1TJ9XS3KR3PDYDV0002"


def entry(run_id, sequence=1, name="", state=RunState.QUEUED):
    return Entry(RunRecord(run_id, name or run_id, "script", "", state, 0.0), Ticket(sequence, 1, Resources()))


@pytest.fixture
def place(tmp_path):
    return tmp_path / "daemon.db"


@pytest.fixture
def roster(place):
    with closing(Index(place)) as index:
        yield Roster(index, Newsroom())


def test_what_was_accepted_is_known_again_with_its_count(place):
    with closing(Index(place)) as index:
        roster = Roster(index, Newsroom())
        sequence = roster.reserve(10)
        roster.accept(entry(FIRST, sequence))
        roster.release()
    with closing(Index(place)) as index:
        roster = Roster(index, Newsroom())
        assert [one.id for one in roster.all()] == [FIRST]
        assert roster.reserve(10) == sequence + 1


def test_a_number_is_never_given_twice_even_when_its_run_was_removed(place):
    with closing(Index(place)) as index:
        roster = Roster(index, Newsroom())
        roster.accept(entry(FIRST, roster.reserve(10)))
        roster.release()
        roster.drop(FIRST)
    with closing(Index(place)) as index:
        assert Roster(index, Newsroom()).reserve(10) == 2


def test_places_are_reserved_while_requests_are_written_down(roster):
    assert roster.reserve(2) == 1
    assert roster.reserve(2) == 2
    assert roster.reserve(2) is None
    roster.release()
    assert roster.reserve(2) == 3


def test_a_heartbeat_is_shown_but_not_written(place):
    with closing(Index(place)) as index:
        roster = Roster(index, Newsroom())
        roster.accept(entry(FIRST))
        roster.note(replace(entry(FIRST), is_silent=True))
        assert roster.find(FIRST).is_silent
    with closing(Index(place)) as index:
        assert Roster(index, Newsroom()).find(FIRST).is_silent is False


def test_newest_first(roster):
    for run_id in (FIRST, SECOND):
        roster.accept(entry(run_id))
    assert [one.id for one in roster.all()] == [SECOND, FIRST]


def test_two_that_begin_alike_are_not_guessed_between(roster):
    roster.accept(entry(FIRST, name="one"))
    roster.accept(entry(SECOND, name="two"))
    assert roster.resolve("one").id == FIRST
    with pytest.raises(NotFound, match="could be any of 2 runs"):
        roster.resolve(FIRST[:25])
    with pytest.raises(NotFound, match="Did you mean 'two'"):
        roster.resolve("twoo")


def test_every_change_is_news(place):
    news = Newsroom()
    with closing(Index(place)) as index:
        roster = Roster(index, news)
        roster.accept(entry(FIRST))
        roster.put(entry(FIRST, state=RunState.RUNNING), "started")
        roster.note(entry(FIRST, state=RunState.RUNNING))
        roster.drop(FIRST)
        roster.drop(FIRST)
    assert [one.happening for one in news.since(0)] == ["accepted", "started", "changed", "removed"]
