import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.apps.matmul.kind import KIND
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import RequestRefused, Resources


def prepared(**config):
    return KIND.prepare(RunRequest("matmul", "", config), Resources(2), Path("runs"))


def test_a_search_requests_a_core_for_each_walker():
    made = prepared(format="3x3x3", walkers=2)
    assert made.resources.cpus == 2
    assert made.request.recipe == "discover 3x3x3"
    assert (made.config["format"], made.config["field"]) == ("3x3x3", "gf2")


def test_all_errors_are_reported_at_once():
    request = RunRequest("matmul", "", {"format": "3x3", "seconds": 0}, nproc=2)
    with pytest.raises(RequestRefused) as caught:
        KIND.prepare(request, Resources(), Path("runs"))
    assert {complaint.key for complaint in caught.value.field_errors} == {"format", "seconds", "nproc"}


def test_the_schema_has_every_key():
    assert {"format", "field", "seconds", "seed", "walkers", "start"} <= set(KIND.schema()["properties"])


def test_importing_the_kind_does_not_load_torch():
    script = (
        "import sys; import palaestra.apps.matmul.kind; print([m for m in ('torch', 'gymnasium') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_request_cannot_name_a_file_to_read():
    """Error messages would tell what is in it."""
    with pytest.raises(RequestRefused, match="reads no scheme files") as caught:
        prepared(start="../secret.json")
    assert [complaint.key for complaint in caught.value.field_errors] == ["start"]
    assert prepared(start="2x2x2-zt-r7-0123456789abcdef").config["start"].startswith("2x2x2")
