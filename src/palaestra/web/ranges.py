"""Which bytes of a file are wanted: `Range`, `If-Range` and `If-None-Match`, as RFC 9110 has them, for one range."""

from __future__ import annotations

import re
from dataclasses import dataclass

from palaestra.web.errors import Refusal

RANGE = re.compile(r"bytes[ \t]*=[ \t]*(\d{0,19})[ \t]*-[ \t]*(\d{0,19})[ \t]*", re.ASCII)


@dataclass(frozen=True)
class Span:
    start: int
    end: int  # the first byte that is not wanted any more

    def __len__(self) -> int:
        return self.end - self.start


def wanted_span(header: str | None, size: int, if_range: str | None, etag: str) -> Span | None:
    """None: all of it. What cannot be read, and several ranges at once, are passed over, as the RFC allows.

    A range that begins behind the end is refused with 416 and the size.
    """
    if header is None or (if_range is not None and if_range.strip() != etag):
        return None
    match = RANGE.fullmatch(header.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
        is_there = int(last) > 0 and size > 0
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
        is_there = start < size
    if not is_there:
        hint = f"It has {size} bytes."
        raise Refusal(416, f"There is nothing at {header.strip()[:100]}.", hint, headers=_unsatisfied(size))
    return Span(start, end)


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Whether the caller has exactly this content already."""
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def _unsatisfied(size: int) -> dict[str, str]:
    return {"content-range": f"bytes */{size}", "accept-ranges": "bytes"}
