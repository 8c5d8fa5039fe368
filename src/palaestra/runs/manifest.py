"""`manifest.json`: what is where in a run's directory, for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.runs.directory import SUBDIRECTORIES
from palaestra.runs.files import read_json, stamped, unstamped, write_json

if TYPE_CHECKING:
    from palaestra.core.run import RunRequest
    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1


def write_manifest(directory: RunDirectory, request: RunRequest, name: str) -> None:
    """The map is the same for the whole life of a run: it says where things go, also those yet to come."""
    manifest = {
        "run": directory.id,
        "name": name,
        "kind": request.kind,
        "recipe": request.recipe,
        "command": request.command,
        "submitted_by": request.submitted_by,
        "entries": _entries(directory),
    }
    write_json(directory.manifest_file, stamped(manifest, SCHEMA_VERSION))


def read_manifest(directory: RunDirectory) -> dict[str, Any]:
    path = directory.manifest_file
    return unstamped(read_json(path, follow_links=False), SCHEMA_VERSION, path)


def _entries(directory: RunDirectory) -> dict[str, dict[str, str]]:
    """By role; paths are relative to the run's directory."""
    files = {
        "request": (directory.request_file, "yaml"),
        "config": (directory.config_file, "yaml"),
        "environment": (directory.environment_file, "json"),
        "status": (directory.status_file, "json"),
        "journal": (directory.journal_file, "jsonl"),
        "metrics": (directory.metrics_file, "sqlite"),
        "eval_summary": (directory.eval_summary_file, "json"),
    }
    entries = {role: {"path": path.name, "kind": kind} for role, (path, kind) in files.items()}
    return entries | {name: {"path": name, "kind": "directory"} for name in SUBDIRECTORIES}
