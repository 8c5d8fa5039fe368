"""Everything about one run that its page shows at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from palaestra.contracts.errors import DamagedFile, NotFound
from palaestra.contracts.run import RunState
from palaestra.daemon.tail import read_end, read_tail
from palaestra.runs.documents import read_config, read_request
from palaestra.runs.files import read_json
from palaestra.web.run_data import RUN_SCHEMA, describe_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.daemon.entry import Entry
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.house import House

JOURNAL_BYTES = 1 << 16  # from its end: how the worker ended stands there
FAILED = {RunState.FAILED, RunState.LOST}

OBJECT_OR_NULL = {"type": ["object", "null"]}
DETAILS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["run", "request", "config", "command", "environment", "failure"],
    "properties": {
        "run": RUN_SCHEMA,
        "request": OBJECT_OR_NULL,
        "config": OBJECT_OR_NULL,
        "command": {"type": "string"},
        "environment": OBJECT_OR_NULL,
        "failure": {
            "type": ["object", "null"],
            "properties": {
                "message": {"type": "string"},
                "signal": {"type": "string"},
                "log_tail": {"type": "array", "items": {"type": "string"}},
            },
        },
    },
}


def describe_details(house: House, entry: Entry) -> dict[str, Any]:
    """What cannot be read of a damaged run is null; the rest is shown."""
    directory = house.daemon.directory(entry.id)
    request = _read(lambda: vars(read_request(directory)))
    return {
        "run": describe_run(house, entry),
        "request": request,
        "config": _read(lambda: read_config(directory)),
        "command": str(request["command"]) if request else "",
        "environment": _read(lambda: read_json(directory.environment_file)),
        "failure": describe_failure(directory, entry) if entry.state in FAILED else None,
    }


def describe_failure(directory: RunDirectory, entry: Entry) -> dict[str, Any]:
    ended = _last_end(directory)
    return {
        "message": entry.record.failure,
        "signal": str(ended.get("signal") or ""),
        "log_tail": read_tail(directory),
    }


def _last_end(directory: RunDirectory) -> dict[str, Any]:
    for line in reversed(read_end(directory.journal_file, JOURNAL_BYTES).splitlines()):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("event") == "worker.ended" and isinstance(entry.get("data"), dict):
            return dict(entry["data"])
    return {}


def _read(read: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return read()
    except (DamagedFile, NotFound):
        return None
