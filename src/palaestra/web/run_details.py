"""Everything about one run that its page shows at once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.run import RunRequest, RunState
from palaestra.daemon.command_line import shell_command
from palaestra.daemon.home import DaemonHome
from palaestra.daemon.tail import read_end, read_tail
from palaestra.runs.disk_use import measure_disk_use
from palaestra.runs.documents import read_config, read_request
from palaestra.runs.files import read_json
from palaestra.web.run_data import Run, describe_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.daemon.entry import Entry
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.house import House

JOURNAL_BYTES = 1 << 16  # from its end: how the worker ended stands there
FAILED = {RunState.FAILED, RunState.LOST}


class DiskUse(TypedDict):
    bytes: int
    parts: dict[str, int]


class Failure(TypedDict):
    message: str
    signal: str
    log_tail: list[str]


class RunDetail(TypedDict):
    run: Run
    request: dict[str, Any] | None
    config: dict[str, Any] | None
    command: str
    environment: dict[str, Any] | None
    failure: Failure | None
    disk: DiskUse


def describe_details(house: House, entry: Entry) -> RunDetail:
    """What cannot be read of a damaged run is null; the rest is shown."""
    directory = house.daemon.directory(entry.id)
    request = _read(lambda: vars(read_request(directory)))
    config = _read(lambda: read_config(directory))
    disk = measure_disk_use(directory, DaemonHome(house.daemon.root).curves(entry.id))
    return {
        "run": describe_run(house, entry),
        "request": request,
        "config": config,
        "command": _command(house, request, config),
        "environment": _read(lambda: read_json(directory.environment_file)),
        "failure": describe_failure(directory, entry) if entry.state in FAILED else None,
        "disk": {"bytes": disk.total, "parts": disk.parts},
    }


def _command(house: House, request: dict[str, Any] | None, config: dict[str, Any] | None) -> str:
    """Starts such a run once more, under a new name: the run's own is taken."""
    if request is None:
        return ""
    return shell_command(house.daemon.kinds, replace(RunRequest(**request), name=""), config)


def describe_failure(directory: RunDirectory, entry: Entry) -> Failure:
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
