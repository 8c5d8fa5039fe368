"""Logs and journal of a run, in pieces."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, TypedDict

from pydantic import Field

from palaestra.core.errors import NotFound, did_you_mean
from palaestra.runs.journal import read_journal
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.files import list_files, open_listed
from palaestra.web.request_parsing import Query

if TYPE_CHECKING:
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.files import OpenedFile

ENDING = ".log"
WORKER = "worker"  # the worker's output, or the log of its first rank if that is empty
INCOMPLETE_CHARACTER = re.compile(
    rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)  # at the end
LogPart = TypedDict(  # functional syntax: `from` is a keyword
    "LogPart", {"text": str, "from": int, "next": int, "size": int, "stream": str, "streams": list[str]}
)


class LogQuery(Query):
    stream: str = Field(WORKER, min_length=1, max_length=100, description="worker, rank_0, …: one of `streams`")
    start: int | None = Field(
        None, alias="from", ge=0, le=1 << 53, description="first byte: `next` of the last response"
    )
    limit: int = Field(256 << 10, ge=16, le=1 << 20, description="bytes")
    tail: int | None = Field(None, ge=1, le=10_000, description="instead of `from`: lines from the end")


def show_log(call: Call) -> LogPart:
    """Returns a piece of a log. Invalid UTF-8 is replaced; control characters are kept, the page shows text only."""
    directory = call.directory()
    sizes = {file.name.removesuffix(ENDING): file.bytes for file in list_files(directory.logs, ENDING)}
    streams = sorted(sizes)
    file = _opened(directory, call.query.stream, sizes)
    if file is None:
        return {"text": "", "from": 0, "next": 0, "size": 0, "stream": WORKER, "streams": streams}
    try:
        start, content = _piece(file, call.query)
    finally:
        os.close(file.descriptor)
    return {
        "text": content.decode("utf-8", "replace"),
        "from": start,
        "next": start + len(content),
        "size": file.bytes,
        "stream": file.name.removesuffix(ENDING),
        "streams": streams,
    }


def _opened(directory: RunDirectory, stream: str, sizes: dict[str, int]) -> OpenedFile | None:
    """Opens a log; None while there is none."""
    if stream == WORKER:
        usual = [path.stem for path in (directory.output_file(), directory.log_file()) if path.stem in sizes]
        found = next((name for name in usual if sizes[name]), usual[0] if usual else None)
        return None if found is None else open_listed(directory.logs, f"{found}{ENDING}", ENDING)
    if stream not in sizes:
        known = [WORKER, *sorted(sizes)]
        hint = did_you_mean(stream, known) or f"There are: {', '.join(known)}."
        raise NotFound(f"No log named {stream!r}.", hint)
    return open_listed(directory.logs, f"{stream}{ENDING}", ENDING)


def _piece(file: OpenedFile, query: LogQuery) -> tuple[int, bytes]:
    if query.tail is not None:
        return _last_lines(file, query.tail, query.limit)
    start = query.start or 0
    if start > file.bytes:  # the file was truncated: start again
        start = 0
    return start, _whole_characters(os.pread(file.descriptor, query.limit, start))


def _last_lines(file: OpenedFile, lines: int, limit: int) -> tuple[int, bytes]:
    """Returns the last lines, at most `limit` bytes."""
    start = max(0, file.bytes - limit)
    content = os.pread(file.descriptor, limit, start)
    position = len(content) - 1 if content.endswith(b"\n") else len(content)
    for _ in range(lines):
        position = content.rfind(b"\n", 0, max(position, 0))
        if position < 0:
            break
    begin = position + 1 if position >= 0 else _first_whole(content) if start else 0
    return start + begin, _whole_characters(content[begin:])


def _first_whole(content: bytes) -> int:
    """Returns the index after a partial character at the start."""
    return next((index for index in range(min(4, len(content))) if content[index] & 0xC0 != 0x80), 0)


def _whole_characters(content: bytes) -> bytes:
    """Leaves a partial character at the end for the next piece, unless the piece contains nothing else."""
    half = INCOMPLETE_CHARACTER.search(content[-3:])
    return content if half is None or half.end() - half.start() == len(content) else content[: -len(half.group())]


class JournalQuery(Query):
    after: int = Field(0, ge=0, le=1 << 53, description="the `next` of the last response")
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
    """Returns journal entries, counted from 1: the count gives the order, because clocks jump."""
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
        "/api/runs/{id}/log",
        show_log,
        "a piece of a run's log, from the end or from a byte",
        LogQuery,
        response=LogPart,
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/journal",
        show_journal,
        "events of a run",
        JournalQuery,
        response=JournalPart,
    ),
)
