"""`queue.json`: on which terms a daemon accepted a run. A run without it is none of the daemon's business to start."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile
from palaestra.core.worker_kind import Resources
from palaestra.runs.files import read_json, write_json
from palaestra.runs.schema import stamped, unstamped

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1
HIGHEST_PRIORITY = 1000
LARGEST_LOG = 1 << 30
LONGEST_GRACE = 24 * 3600.0


@dataclass(frozen=True)
class Terms:
    """What whoever submits may ask for beside the experiment itself; 0 and None: as the daemon has it."""

    priority: int = 0  # higher goes first
    memory_mb: int = 0  # counted against the machine's, and the run is ended when it takes more
    grace_seconds: float | None = None
    log_bytes: int | None = None


@dataclass(frozen=True)
class Ticket:
    sequence: int  # order of acceptance, over all runs of this store
    attempt: int  # counted from 1; each retry is another
    resources: Resources
    terms: Terms = Terms()
    executor: str = "local"
    nproc: int = 1
    submitted_by: str = ""
    command: str = ""


def encode_ticket(ticket: Ticket) -> dict[str, Any]:
    return asdict(ticket)


def decode_ticket(data: dict[str, Any], path: Path) -> Ticket:
    if "asked_by" in data:  # the name of the key until 0.1
        data = {**data, "submitted_by": data["asked_by"]}
    try:
        rest = {key: data[key] for key in ("sequence", "attempt", "executor", "nproc", "submitted_by", "command")}
        numbers = (rest["sequence"], rest["attempt"], rest["nproc"])
        if not all(isinstance(number, int) for number in numbers):
            raise TypeError(f"sequence, attempt, nproc are {numbers!r}")
        return Ticket(resources=Resources(**data["resources"]), terms=Terms(**data["terms"]), **rest)
    except (KeyError, TypeError) as error:
        raise DamagedFile(f"{path} does not say how the run was accepted ({error}).") from error


def stamped_ticket(ticket: Ticket) -> dict[str, Any]:
    return stamped(encode_ticket(ticket), SCHEMA_VERSION)


def write_ticket(directory: RunDirectory, ticket: Ticket) -> None:
    write_json(directory.queue_file, stamped_ticket(ticket))


def read_ticket(directory: RunDirectory) -> Ticket | None:
    """None for a run that no daemon accepted."""
    path = directory.queue_file
    if not path.exists():
        return None
    return decode_ticket(unstamped(read_json(path), SCHEMA_VERSION, path), path)
