"""What happened to a run."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from palaestra.runs.journal import read_journal
from palaestra.web.reading import Query
from palaestra.web.route import Call, Endpoint
from palaestra.web.schemas import MAPPING, NUMBER, TEXT, WHOLE, fields, rows


class JournalQuery(Query):
    after: int = Field(0, ge=0, le=1 << 53, description="the `next` of the last answer")
    limit: int = Field(1000, ge=1, le=10_000, description="entries")


def show_journal(call: Call) -> dict[str, Any]:
    """Entries are counted from 1; clocks jump, so that only the count says what came first."""
    entries = read_journal(call.directory().journal_file)
    after = min(call.query.after, len(entries))
    shown = entries[after : after + call.query.limit]
    listed = [
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


_ENTRY = fields(number=WHOLE, at=NUMBER, event=TEXT, level=TEXT, rank=WHOLE, data=MAPPING)
ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/journal",
        show_journal,
        "what happened to a run",
        JournalQuery,
        answer=fields(entries=rows(_ENTRY), next=WHOLE, total=WHOLE),
    ),
)
