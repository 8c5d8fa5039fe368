from pathlib import Path

import pytest
from daemon_scripts import MACHINE, ScriptKind, script

from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import RequestRefused, Resources
from palaestra.daemon import request_validation
from palaestra.daemon.request_validation import validate_request
from palaestra.daemon.run_entry import SubmissionOptions
from palaestra.daemon.worker_kinds import WorkerKinds

KINDS = WorkerKinds({"script": ScriptKind()})


def check(request, options=None, machine=MACHINE, taken=()):
    return validate_request(
        request, options or SubmissionOptions(), KINDS, machine, Path("/nowhere"), lambda name: name in taken
    )


def errors_of(request, options=None, **more):
    with pytest.raises(RequestRefused) as refused:
        check(request, options, **more)
    return {one.key: str(one) for one in refused.value.field_errors}


def test_a_valid_request_is_returned_with_its_resources():
    prepared = check(script("pass", nproc=2), SubmissionOptions(memory_mb=300))
    assert prepared.config == {"code": "pass"}
    assert prepared.resources == Resources(2, 0, 300)


def test_an_unknown_kind_is_one_error_of_several():
    found = errors_of(RunRequest("scrip", "", {}, name="a/b"))
    assert set(found) == {"kind", "name"}
    assert "Did you mean 'script'?" in found["kind"]


@pytest.mark.parametrize("name", ["latest", "..", "a\nb", "x" * 200, "01M7H5H1TJ9XS3KR3PDYDV077C"])
def test_invalid_names_are_refused(name):
    assert set(errors_of(script("pass", name=name))) == {"name"}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (SubmissionOptions(priority=1001), "priority"),
        (SubmissionOptions(memory_mb=-1), "memory_mb"),
        (SubmissionOptions(grace_seconds=-1.0), "grace_seconds"),
        (SubmissionOptions(grace_seconds=float("nan")), "grace_seconds"),
        (SubmissionOptions(log_bytes=1), "log_bytes"),
    ],
)
def test_invalid_options_are_refused_by_key(options, key):
    assert set(errors_of(script("pass"), options)) == {key}


def test_another_executor_takes_no_local_resources(monkeypatch):
    monkeypatch.setattr(request_validation, "executor_names", lambda: ["local", "ray"])
    assert check(script("pass", nproc=64, executor="ray")).resources == Resources(0, 0, 0)


def test_a_request_for_too_much_memory_is_refused():
    assert "5000 MB" in errors_of(script("pass"), SubmissionOptions(memory_mb=5000))["nproc"]
