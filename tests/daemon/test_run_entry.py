from __future__ import annotations

import json
from pathlib import Path

import pytest

from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.run_entry import (
    RunEntry,
    Submission,
    SubmissionOptions,
    decode_entry,
    encode_entry,
    read_submission,
    write_submission,
)
from palaestra.runs.directory import RunDirectory

SUBMISSION = Submission(
    7, 2, Resources(3, 1, 500), SubmissionOptions(5, 600, 1.5, 4096), "ray", 4, "web:ada", "palaestra submit"
)


def test_a_submission_is_read_as_written(tmp_path):
    directory = RunDirectory(tmp_path)
    write_submission(directory, SUBMISSION)
    assert read_submission(directory) == SUBMISSION


def test_the_old_name_of_submitted_by_is_read(tmp_path):
    directory = RunDirectory(tmp_path)
    write_submission(directory, SUBMISSION)
    content = json.loads(directory.queue_file.read_text())
    content["asked_by"] = content.pop("submitted_by")
    directory.queue_file.write_text(json.dumps(content))
    assert read_submission(directory) == SUBMISSION


def test_a_run_without_a_submission_has_none(tmp_path):
    assert read_submission(RunDirectory(tmp_path)) is None


@pytest.mark.parametrize(
    "change", [{"sequence": "7"}, {"resources": None}, {"terms": {"hurry": 1}}, {"schema_version": 2}, {"nproc": None}]
)
def test_an_invalid_submission_is_refused_by_file_name(tmp_path, change):
    directory = RunDirectory(tmp_path)
    write_submission(directory, SUBMISSION)
    content = json.loads(directory.queue_file.read_text()) | change
    directory.queue_file.write_text(json.dumps(content))
    with pytest.raises(DamagedFile, match="queue.json"):
        read_submission(directory)


RECORD = RunRecord("01M7H5H1TJ9XS3KR3PDYDV077C", "n", "script", "", RunState.QUEUED, 1.0, summary={"mean": 2.5})


def test_an_entry_is_decoded_as_encoded():
    for entry in (RunEntry(RECORD), RunEntry(RECORD, Submission(1, 1, Resources()), (0, 2), status_stamp="1-2")):
        assert decode_entry(json.loads(json.dumps(encode_entry(entry))), Path("x")) == entry


def test_only_an_accepted_and_queued_run_waits():
    submission = Submission(1, 1, Resources())
    running = RunRecord(**{**RECORD.__dict__, "state": RunState.RUNNING})
    waits = [
        RunEntry(RECORD, submission).is_waiting,
        RunEntry(RECORD).is_waiting,
        RunEntry(running, submission).is_waiting,
    ]
    assert waits == [True, False, False]
