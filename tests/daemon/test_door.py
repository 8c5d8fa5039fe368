from pathlib import Path

import pytest
from daemon_scripts import MACHINE, ScriptKind, script

from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import RequestRefused, Resources
from palaestra.daemon import door
from palaestra.daemon.door import check_request
from palaestra.daemon.kinds import Kinds
from palaestra.daemon.ticket import Terms

KINDS = Kinds({"script": ScriptKind()})


def check(request, terms=None, machine=MACHINE, taken=()):
    return check_request(request, terms or Terms(), KINDS, machine, Path("/nowhere"), lambda name: name in taken)


def complaints(request, terms=None, **more):
    with pytest.raises(RequestRefused) as refused:
        check(request, terms, **more)
    return {one.key: str(one) for one in refused.value.field_errors}


def test_what_passes_is_handed_on_with_what_it_takes():
    prepared = check(script("pass", nproc=2), Terms(memory_mb=300))
    assert prepared.config == {"code": "pass"}
    assert prepared.resources == Resources(2, 0, 300)


def test_an_unknown_kind_is_one_complaint_among_the_others():
    found = complaints(RunRequest("scrip", "", {}, name="a/b"))
    assert set(found) == {"kind", "name"}
    assert "Did you mean 'script'?" in found["kind"]


@pytest.mark.parametrize("name", ["latest", "..", "a\nb", "x" * 200, "01M7H5H1TJ9XS3KR3PDYDV077C"])
def test_names_that_cannot_be_are_refused(name):
    assert set(complaints(script("pass", name=name))) == {"name"}


@pytest.mark.parametrize(
    ("terms", "key"),
    [
        (Terms(priority=1001), "priority"),
        (Terms(memory_mb=-1), "memory_mb"),
        (Terms(grace_seconds=-1.0), "grace_seconds"),
        (Terms(grace_seconds=float("nan")), "grace_seconds"),
        (Terms(log_bytes=1), "log_bytes"),
    ],
)
def test_terms_that_cannot_be_are_refused_by_key(terms, key):
    assert set(complaints(script("pass"), terms)) == {key}


def test_what_another_executor_places_takes_nothing_here(monkeypatch):
    monkeypatch.setattr(door, "executor_names", lambda: ["local", "ray"])
    assert check(script("pass", nproc=64, executor="ray")).resources == Resources(0, 0, 0)


def test_more_memory_than_there_is_can_never_start():
    assert "5000 MB" in complaints(script("pass"), Terms(memory_mb=5000))["nproc"]
