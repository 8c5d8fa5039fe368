"""What a daemon knows of a run: its status, and how it was submitted (`queue.json`).

A daemon only starts runs with a `queue.json`; others were started elsewhere, such as by `palaestra train`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.runs.files import read_json, stamped, unstamped, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1
MAX_PRIORITY = 1000
MAX_LOG_BYTES = 1 << 30
MAX_GRACE_SECONDS = 24 * 3600.0
OLD_KEYS = {"asked_by": "submitted_by", "terms": "options", "ticket": "submission"}  # names until 0.1


@dataclass(frozen=True)
class SubmissionOptions:
    """Options of a submission beside the request itself; 0 and None: the daemon's settings."""

    priority: int = 0  # higher starts first
    memory_mb: int = 0  # reserved on the machine; a run that exceeds it is stopped
    grace_seconds: float | None = None
    log_bytes: int | None = None


@dataclass(frozen=True)
class Submission:
    """An accepted request, as stored in `queue.json`."""

    sequence: int  # order of acceptance, over all runs of this directory
    attempt: int  # counted from 1; each retry adds 1
    resources: Resources
    options: SubmissionOptions = SubmissionOptions()
    executor: str = "local"
    nproc: int = 1
    submitted_by: str = ""
    command: str = ""


def encode_submission(submission: Submission) -> dict[str, Any]:
    return asdict(submission)


def decode_submission(data: dict[str, Any], path: Path) -> Submission:
    """Decodes a submission. Raises DamagedFile."""
    try:
        data = {OLD_KEYS.get(key, key): value for key, value in data.items()}
        rest = {key: data[key] for key in ("sequence", "attempt", "executor", "nproc", "submitted_by", "command")}
        numbers = (rest["sequence"], rest["attempt"], rest["nproc"])
        if not all(isinstance(number, int) for number in numbers):
            raise TypeError(f"sequence, attempt, nproc are {numbers!r}")
        return Submission(
            resources=Resources(**data["resources"]), options=SubmissionOptions(**data["options"]), **rest
        )
    except (KeyError, TypeError) as error:
        raise DamagedFile(f"{path} contains no valid submission ({error}).") from error


def stamped_submission(submission: Submission) -> dict[str, Any]:
    return stamped(encode_submission(submission), SCHEMA_VERSION)


def write_submission(directory: RunDirectory, submission: Submission) -> None:
    write_json(directory.queue_file, stamped_submission(submission))


def read_submission(directory: RunDirectory) -> Submission | None:
    """Returns None for a run that no daemon accepted."""
    path = directory.queue_file
    if not path.exists():
        return None
    return decode_submission(unstamped(read_json(path), SCHEMA_VERSION, path), path)


@dataclass(frozen=True)
class RunEntry:
    """A run in the daemon's table."""

    record: RunRecord
    submission: Submission | None = None  # None: started elsewhere, such as by `palaestra train`
    gpus: tuple[int, ...] = ()  # devices assigned while it runs
    is_silent: bool = False  # running without a heartbeat for DaemonSettings.silence_seconds
    status_stamp: str = ""  # of the status.json that `record` was read from

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def state(self) -> RunState:
        return self.record.state

    @property
    def is_waiting(self) -> bool:
        """Whether it waits in this daemon's queue; a new run of `palaestra train` does not."""
        return self.submission is not None and self.record.state is RunState.QUEUED


def encode_entry(entry: RunEntry) -> dict[str, Any]:
    return {
        "record": asdict(entry.record),
        "submission": None if entry.submission is None else encode_submission(entry.submission),
        "gpus": list(entry.gpus),
        "status_stamp": entry.status_stamp,
    }


def decode_entry(data: dict[str, Any], path: Path) -> RunEntry:
    """Decodes an entry. Raises KeyError, TypeError, ValueError or DamagedFile."""
    data = {OLD_KEYS.get(key, key): value for key, value in data.items()}
    record = RunRecord(**{**data["record"], "state": RunState(data["record"]["state"])})
    submission = None if data["submission"] is None else decode_submission(data["submission"], path)
    return RunEntry(record, submission, tuple(data["gpus"]), status_stamp=str(data["status_stamp"]))
