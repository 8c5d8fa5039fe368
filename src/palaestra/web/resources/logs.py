"""What a run's processes said, a piece at a time."""

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
WORKER = "worker"  # what the worker printed; where it printed nothing, the log of its first rank
BEGUN = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")  # half a character
LogPart = TypedDict(  # `from` is a word of Python's
    "LogPart", {"text": str, "from": int, "next": int, "size": int, "stream": str, "streams": list[str]}
)


class LogQuery(Query):
    stream: str = Field(WORKER, min_length=1, max_length=100, description="worker, rank_0, …: one of `streams`")
    start: int | None = Field(None, alias="from", ge=0, le=1 << 53, description="byte to go on from: `next`")
    limit: int = Field(256 << 10, ge=16, le=1 << 20, description="bytes")
    tail: int | None = Field(None, ge=1, le=10_000, description="instead of `from`: so many lines from the end")


def show_log(call: Call) -> LogPart:
    """Bytes that are no UTF-8 are replaced; control characters stay what they are, for a page to show as text."""
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
    """None while there is no log yet."""
    if stream == WORKER:
        usual = [path.stem for path in (directory.output_file(), directory.log_file()) if path.stem in sizes]
        found = next((name for name in usual if sizes[name]), usual[0] if usual else None)
        return None if found is None else open_listed(directory.logs, f"{found}{ENDING}", ENDING)
    if stream not in sizes:
        known = [WORKER, *sorted(sizes)]
        hint = did_you_mean(stream, known) or f"There are: {', '.join(known)}."
        raise NotFound(f"This run has no log called {stream!r}.", hint)
    return open_listed(directory.logs, f"{stream}{ENDING}", ENDING)


def _piece(file: OpenedFile, query: LogQuery) -> tuple[int, bytes]:
    if query.tail is not None:
        return _last_lines(file, query.tail, query.limit)
    start = query.start or 0
    if start > file.bytes:  # the file was cut since: it begins anew
        start = 0
    return start, _whole_characters(os.pread(file.descriptor, query.limit, start))


def _last_lines(file: OpenedFile, lines: int, limit: int) -> tuple[int, bytes]:
    """The end is a line end or the end of the file; more than `limit` bytes are cut at the front."""
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
    """Past the rest of a character that was cut in two."""
    return next((index for index in range(min(4, len(content))) if content[index] & 0xC0 != 0x80), 0)


def _whole_characters(content: bytes) -> bytes:
    """Half a character at the end waits for its other half; alone it is not waited for, it may never come."""
    half = BEGUN.search(content[-3:])
    return content if half is None or half.end() - half.start() == len(content) else content[: -len(half.group())]


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
        "/api/runs/{id}/log",
        show_log,
        "a piece of a run's log, from the end or from a byte on",
        LogQuery,
        response=LogPart,
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/journal",
        show_journal,
        "what happened to a run",
        JournalQuery,
        response=JournalPart,
    ),
)
