"""A run as the API shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.daemon.door import LOCAL
from palaestra.frames.place import every_lane
from palaestra.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.daemon.entry import Entry
    from palaestra.web.house import House

NUMBER_OR_NULL = {"type": ["number", "null"]}
TEXT, NUMBER, COUNT, BOOLEAN = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
RUN_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name", "kind", "recipe", "state", "created_at"],
    "properties": {
        "id": TEXT,
        "name": TEXT,
        "kind": TEXT,
        "recipe": TEXT,
        "state": {"enum": ["queued", "running", "stopping", "finished", "failed", "cancelled", "lost"]},
        "created_at": NUMBER,
        "started_at": NUMBER_OR_NULL,
        "ended_at": NUMBER_OR_NULL,
        "updated_at": NUMBER_OR_NULL,
        "epoch": COUNT,
        "agent_step": COUNT,
        "total_steps": COUNT,
        "progress": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "exit_code": {"type": ["integer", "null"]},
        "failure": TEXT,
        "summary": {"type": "object", "additionalProperties": NUMBER_OR_NULL},
        "tags": {"type": "array", "items": TEXT},
        "note": TEXT,
        "group": TEXT,
        "seed": {"type": ["integer", "null"]},
        "env": {"type": ["string", "null"]},
        "priority": COUNT,
        "asked_by": TEXT,
        "executor": TEXT,
        "nproc": COUNT,
        "attempt": COUNT,
        "parent": {"type": ["string", "null"]},
        "is_live": BOOLEAN,
        "is_silent": BOOLEAN,
        "queue_position": {"type": ["integer", "null"]},
    },
}
ONE_RUN: dict[str, Any] = {"type": "object", "required": ["run"], "properties": {"run": RUN_SCHEMA}}


def describe_runs(house: House, entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Positions in the queue counted from 1."""
    positions = {entry.id: number for number, entry in enumerate(house.daemon.waiting(), start=1)}
    lanes = " ".join(path.name for path in every_lane())
    return [_describe(house, entry, positions.get(entry.id), is_live=entry.id in lanes) for entry in entries]


def describe_run(house: House, entry: Entry) -> dict[str, Any]:
    return describe_runs(house, [entry])[0]


def _describe(house: House, entry: Entry, position: int | None, *, is_live: bool) -> dict[str, Any]:
    record, ticket = entry.record, entry.ticket
    directory = RunDirectory(house.daemon.root / entry.id)
    facts, annotations = house.book.facts(directory), house.book.annotations(directory)
    return {
        "id": record.id,
        "name": record.name,
        "kind": record.kind,
        "recipe": record.recipe,
        "state": str(record.state),
        "created_at": record.created_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "updated_at": record.updated_at,
        "epoch": record.epoch,
        "agent_step": record.agent_step,
        "total_steps": record.total_steps,
        "progress": min(1.0, record.agent_step / record.total_steps) if record.total_steps else None,
        "exit_code": record.exit_code,
        "failure": record.failure,
        "summary": dict(record.summary),
        "tags": list(annotations.tags),
        "note": annotations.note,
        "group": facts.group,
        "seed": facts.seed,
        "env": facts.env,
        "priority": ticket.terms.priority if ticket else 0,
        "asked_by": ticket.asked_by if ticket else "",
        "executor": ticket.executor if ticket else LOCAL,
        "nproc": ticket.nproc if ticket else 1,
        "attempt": ticket.attempt if ticket else 1,
        "parent": annotations.parent or None,
        "is_live": is_live,
        "is_silent": entry.is_silent,
        "queue_position": position,
    }
