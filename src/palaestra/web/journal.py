"""What happened to a run."""

from __future__ import annotations

from typing import Any, TypedDict

from pydantic import Field

from palaestra.runs.journal import read_journal
from palaestra.web.reading import Query
from palaestra.web.route import Call, Endpoint


class JournalQuery(Query):
    after: int = Field(0, ge=0, le=1 << 53, description="the `next` of the last answer")
    limit: int = Field(1000, ge=1, le=10_000, description="entries")


class JournalEvent(TypedDict):
    number: int  # counted from 1
    at: float
    event: str
    level: str
    rank: int
    data: dict[str, Any]


class JournalPart(TypedDict):
    entries: list[JournalEvent]
    next: int
    total: int


def show_journal(call: Call) -> JournalPart:
    """Entries are counted from 1; clocks jump, so that only the count says what came first."""
    entries = read_journal(call.directory().journal_file)
    after = min(call.query.after, len(entries))
    shown = entries[after : after + call.query.limit]
    listed: list[JournalEvent] = [
        {
            "number": number,
            "at": entry.at,
            "event": entry.event,
            "level": entry.level,
            "rank": entry.rank,
            "data": entry.data,
        }
        for number, entry in enumerate(shown, after + 1)
    ]
    return {"entries": listed, "next": after + len(shown), "total": len(entries)}


ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/journal",
        show_journal,
        "what happened to a run",
        JournalQuery,
        response=JournalPart,
    ),
)
