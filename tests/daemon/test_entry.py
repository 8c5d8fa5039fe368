import json
from pathlib import Path

from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.entry import Entry, decode_entry, encode_entry
from palaestra.daemon.ticket import Ticket

RECORD = RunRecord("01M7H5H1TJ9XS3KR3PDYDV077C", "n", "script", "", RunState.QUEUED, 1.0, summary={"mean": 2.5})


def test_an_entry_survives_the_index():
    for entry in (Entry(RECORD), Entry(RECORD, Ticket(1, 1, Resources()), (0, 2), status_stamp="1-2")):
        assert decode_entry(json.loads(json.dumps(encode_entry(entry))), Path("x")) == entry


def test_only_an_accepted_and_queued_run_waits():
    ticket = Ticket(1, 1, Resources())
    running = RunRecord(**{**RECORD.__dict__, "state": RunState.RUNNING})
    waits = [Entry(RECORD, ticket).is_waiting, Entry(RECORD).is_waiting, Entry(running, ticket).is_waiting]
    assert waits == [True, False, False]
