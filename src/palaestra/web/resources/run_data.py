"""A run as the API shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.executor import LOCAL
from palaestra.core.run import RunRequest, RunState
from palaestra.daemon.run_outcome import read_last_bytes, read_output_tail
from palaestra.daemon.settings import DaemonDirectory
from palaestra.daemon.worker_kinds import shell_command
from palaestra.rendering.frame_buffer import all_frame_buffers
from palaestra.runs.directory import RunDirectory
from palaestra.runs.disk_use import measure_disk_use
from palaestra.runs.documents import read_config, read_request
from palaestra.runs.files import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from palaestra.core.run import RunRecord
    from palaestra.daemon.run_entry import RunEntry
    from palaestra.web.context import AppContext

EVALUATION = "evaluate"  # the kind of a run that evaluates a checkpoint of another
JOURNAL_BYTES = 1 << 16  # the end contains the worker's exit
FAILED = {RunState.FAILED, RunState.LOST}


class Run(TypedDict):
    id: str
    name: str
    kind: str
    recipe: str
    state: RunState
    created_at: float
    started_at: float | None
    ended_at: float | None
    updated_at: float | None
    epoch: int
    agent_step: int
    total_steps: int
    progress: float | None  # from 0 to 1
    exit_code: int | None
    failure: str
    summary: dict[str, float | None]
    tags: list[str]
    note: str
    group: str  # equal for runs whose configs differ only in the seed
    seed: int | None
    env: str | None
    priority: int
    submitted_by: str
    executor: str
    nproc: int
    attempt: int
    parent: str | None
    is_live: bool
    is_silent: bool  # no heartbeat for a while
    queue_position: int | None  # counted from 1


class OneRun(TypedDict):
    run: Run


def describe_runs(context: AppContext, entries: Iterable[RunEntry]) -> list[Run]:
    """Describes runs for the API."""
    positions = {entry.id: number for number, entry in enumerate(context.daemon.waiting(), start=1)}
    frame_buffers = " ".join(path.name for path in all_frame_buffers())
    return [_describe(context, entry, positions.get(entry.id), is_live=entry.id in frame_buffers) for entry in entries]


def describe_run(context: AppContext, entry: RunEntry) -> Run:
    return describe_runs(context, [entry])[0]


def _describe(context: AppContext, entry: RunEntry, position: int | None, *, is_live: bool) -> Run:
    record, submission = entry.record, entry.submission
    directory = RunDirectory(context.daemon.root / entry.id)
    facts, annotations = context.run_facts.facts(directory), context.run_facts.annotations(directory)
    return {
        "id": record.id,
        "name": record.name,
        "kind": record.kind,
        "recipe": record.recipe,
        "state": record.state,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "updated_at": record.updated_at,
        "epoch": record.epoch,
        "agent_step": record.agent_step,
        "total_steps": record.total_steps,
        "progress": _progress(record),
        "exit_code": record.exit_code,
        "failure": record.failure,
        "summary": dict(record.summary),
        "tags": list(annotations.tags),
        "note": annotations.note,
        "group": facts.group,
        "seed": facts.seed,
        "env": facts.env,
        "priority": submission.options.priority if submission else 0,
        "submitted_by": submission.submitted_by if submission else "",
        "executor": submission.executor if submission else LOCAL,
        "nproc": submission.nproc if submission else 1,
        "attempt": submission.attempt if submission else 1,
        "parent": annotations.parent or None,
        "is_live": is_live,
        "is_silent": entry.is_silent,
        "queue_position": position,
    }


def _progress(record: RunRecord) -> float | None:
    """Returns progress by steps, or by episodes for an evaluation; None for a run without end.

    A finished run is 1.0: scripts count their last step from 0, or end after the last whole rollout.
    """
    done, total = float(record.agent_step), float(record.total_steps)
    if record.kind == EVALUATION:
        done, total = (record.summary.get(key, 0.0) for key in ("episodes_played", "episodes_total"))
    if not total:
        return None
    return 1.0 if record.state is RunState.FINISHED else min(1.0, done / total)


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


def describe_details(context: AppContext, entry: RunEntry) -> RunDetail:
    """Describes one run in detail. Unreadable files of a damaged run become null."""
    directory = context.daemon.directory(entry.id)
    request = _read(lambda: vars(read_request(directory)))
    config = _read(lambda: read_config(directory))
    disk = measure_disk_use(directory, DaemonDirectory(context.daemon.root).series_directory(entry.id))
    return {
        "run": describe_run(context, entry),
        "request": request,
        "config": config,
        "command": _command(context, request, config),
        "environment": _read(lambda: read_json(directory.environment_file)),
        "failure": describe_failure(directory, entry) if entry.state in FAILED else None,
        "disk": {"bytes": disk.total, "parts": disk.parts},
    }


def _command(context: AppContext, request: dict[str, Any] | None, config: dict[str, Any] | None) -> str:
    """Returns the command that starts the same run under a new name."""
    if request is None:
        return ""
    return shell_command(context.daemon.kinds, replace(RunRequest(**request), name=""), config)


def describe_failure(directory: RunDirectory, entry: RunEntry) -> Failure:
    ended = _last_end(directory)
    return {
        "message": entry.record.failure,
        "signal": str(ended.get("signal") or ""),
        "log_tail": read_output_tail(directory),
    }


def _last_end(directory: RunDirectory) -> dict[str, Any]:
    for line in reversed(read_last_bytes(directory.journal_file, JOURNAL_BYTES).splitlines()):
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
