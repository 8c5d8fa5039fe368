"""`status.json`: what a run is doing, and whether that is still true."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile, PalaestraError, UsageError
from palaestra.core.run import MOVES, NEWER_VERSION, UNREADABLE, RunRecord, RunState
from palaestra.runs.files import NewerFormat, read_json, stamped, unstamped, write_json
from palaestra.runs.identity import created_at
from palaestra.runs.processes import is_alive

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1
ACTIVE = {RunState.RUNNING, RunState.STOPPING}


def write_record(directory: RunDirectory, record: RunRecord, *, durable: bool = False) -> None:
    """Heartbeats need not be durable; a move to another state should be."""
    write_json(directory.status_file, stamped(asdict(record), SCHEMA_VERSION), durable=durable)


def read_record(directory: RunDirectory) -> RunRecord:
    """The record as observed: a run whose process is dead is lost, whatever it last wrote of itself."""
    return observed(read_written_record(directory))


def read_written_record(directory: RunDirectory) -> RunRecord:
    """The record as the run itself last wrote it."""
    path = directory.status_file
    return _decode(unstamped(read_json(path, follow_links=False), SCHEMA_VERSION, path), path)


def unreadable_record(run_id: str, name: str, error: PalaestraError) -> RunRecord:
    """What stands in a list for a run whose status cannot be read, with the reason."""
    is_newer = isinstance(error, NewerFormat)
    return RunRecord(
        id=run_id,
        name=name,
        kind=UNREADABLE,
        recipe=NEWER_VERSION if is_newer else UNREADABLE,
        state=RunState.LOST,
        created_at=created_at(run_id),
        failure=f"{NEWER_VERSION if is_newer else 'damaged'}: {error}",
    )


def observed(record: RunRecord) -> RunRecord:
    if record.state in ACTIVE and not is_alive(record.pid, record.pid_started_at):
        failure = f"process {record.pid} ended without a word (killed, or the machine stopped)"
        return replace(record, state=RunState.LOST, ended_at=record.updated_at, failure=record.failure or failure)
    return record


def with_state(record: RunRecord, state: RunState, **changes: Any) -> RunRecord:
    """The record after a move that MOVES allows, with further fields changed."""
    if state not in MOVES[record.state]:
        allowed = ", ".join(sorted(MOVES[record.state])) or "nothing"
        raise UsageError(
            f"Run '{record.name}' is {record.state} and cannot become {state}.", f"From there it can become: {allowed}."
        )
    return replace(record, state=state, **changes)


def _decode(data: dict[str, Any], path: Path) -> RunRecord:
    """Fields that a later minor version added are passed over; what is there must have its type."""
    known = {field.name for field in fields(RunRecord)}
    values = {key: value for key, value in data.items() if key in known}
    try:
        values["state"] = RunState(values["state"])
        values["summary"] = {str(key): float(value) for key, value in values.get("summary", {}).items()}
        for key in ("id", "name", "kind", "recipe"):
            _demand(values[key], str, key)
        for key in ("epoch", "agent_step", "total_steps"):
            _demand(values.get(key, 0), int, key)
        for key in ("pid", "exit_code"):
            _demand(values.get(key), int | None, key)
        for key in ("started_at", "ended_at", "updated_at", "pid_started_at"):
            _demand(values.get(key), int | float | None, key)
        _demand(values["created_at"], int | float, "created_at")
        return RunRecord(**values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedFile(f"{path} does not describe a run ({type(error).__name__}: {error}).") from error


def _demand(value: Any, kind: Any, key: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{key} is {value!r}")
