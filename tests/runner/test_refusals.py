import pytest

from palaestra.algorithms.group import PeerLost
from palaestra.core.errors import NotFound, RunFailed, UsageError
from palaestra.runner import refusals
from palaestra.runner.parent import LAUNCHER
from palaestra.runner.refusals import refusals_posted

PLACE = {"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def posted(monkeypatch):
    found = []
    monkeypatch.setattr(refusals, "post_refusal", lambda place, message, seconds: found.append((place.rank, message)))
    monkeypatch.delenv(LAUNCHER, raising=False)
    for name, value in PLACE.items():
        monkeypatch.setenv(name, value)
    return found


def refuse(error):
    with pytest.raises(type(error)), refusals_posted():
        raise error


def test_a_refusal_of_one_of_several_ranks_is_posted(posted):
    refuse(NotFound("There is no run."))
    assert posted == [(1, "There is no run.")]


def known():
    error = UsageError("posted already, through the group")
    error.is_posted = True
    return error


@pytest.mark.parametrize("error", [known(), PeerLost("of another"), RunFailed("could not join")])
def test_what_the_others_know_and_what_is_no_refusal_is_not_posted(posted, error):
    refuse(error)
    assert posted == []


def test_one_process_alone_posts_nothing(posted, monkeypatch):
    for name in PLACE:
        monkeypatch.delenv(name)
    refuse(UsageError("no"))
    assert posted == []


def test_a_launcher_of_ours_sees_it_by_itself(posted, monkeypatch):
    monkeypatch.setenv(LAUNCHER, "1")
    refuse(UsageError("no"))
    assert posted == []


def test_variables_that_are_refused_themselves_name_nobody_to_tell(posted, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR")
    refuse(UsageError("MASTER_ADDR is not set"))
    assert posted == []
