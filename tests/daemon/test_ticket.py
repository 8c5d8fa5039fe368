import json

import pytest

from palaestra.core.errors import DamagedFile
from palaestra.core.worker_kind import Resources
from palaestra.daemon.ticket import Terms, Ticket, read_ticket, write_ticket
from palaestra.runs.directory import RunDirectory

TICKET = Ticket(7, 2, Resources(3, 1, 500), Terms(5, 600, 1.5, 4096), "ray", 4, "web:ada", "palaestra submit")


def test_a_ticket_comes_back_as_it_was(tmp_path):
    directory = RunDirectory(tmp_path)
    write_ticket(directory, TICKET)
    assert read_ticket(directory) == TICKET


def test_the_old_name_of_submitted_by_is_read(tmp_path):
    directory = RunDirectory(tmp_path)
    write_ticket(directory, TICKET)
    content = json.loads(directory.queue_file.read_text())
    content["asked_by"] = content.pop("submitted_by")
    directory.queue_file.write_text(json.dumps(content))
    assert read_ticket(directory) == TICKET


def test_a_run_without_one_is_nobody_s_to_start(tmp_path):
    assert read_ticket(RunDirectory(tmp_path)) is None


@pytest.mark.parametrize(
    "change", [{"sequence": "7"}, {"resources": None}, {"terms": {"hurry": 1}}, {"schema_version": 2}, {"nproc": None}]
)
def test_one_that_says_something_else_is_refused_by_name(tmp_path, change):
    directory = RunDirectory(tmp_path)
    write_ticket(directory, TICKET)
    content = json.loads(directory.queue_file.read_text()) | change
    directory.queue_file.write_text(json.dumps(content))
    with pytest.raises(DamagedFile, match="queue.json"):
        read_ticket(directory)
