"""Stored files of a run: list, open by name, and send whole or as a range.

A name is looked up in the listing of a directory; the text of a client is never joined to a path.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from palaestra.core.errors import NotFound, did_you_mean
from palaestra.web.responses import HttpError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

MAX_FILES = 10_000  # listed for one directory
PIECE = 256 << 10
SANDBOX = "default-src 'none'; sandbox; frame-ancestors 'none'"
RANGE = re.compile(r"bytes[ \t]*=[ \t]*(\d{0,19})[ \t]*-[ \t]*(\d{0,19})[ \t]*", re.ASCII)


class StoredFile(TypedDict):
    name: str
    bytes: int
    created_at: float


@dataclass(frozen=True)
class ListedFile:
    name: str
    bytes: int
    changed_at: float  # seconds since 1970

    def to_json(self) -> StoredFile:
        return {"name": self.name, "bytes": self.bytes, "created_at": self.changed_at}


@dataclass(frozen=True)
class OpenedFile:
    """An open file; the caller closes the descriptor."""

    name: str
    descriptor: int
    about: os.stat_result

    @property
    def bytes(self) -> int:
        return self.about.st_size


def list_files(directory: Path, ending: str = "") -> list[ListedFile]:
    """Lists regular files, newest first, without links and hidden files."""
    found = []
    with _opened(directory) as descriptor:
        if descriptor is not None:
            for name in _names(descriptor, ending):
                with contextlib.suppress(FileNotFoundError):
                    about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        found.append(ListedFile(name, about.st_size, about.st_mtime))
    return sorted(found, key=lambda file: (-file.changed_at, file.name))


def open_listed(directory: Path, wanted: str, ending: str = "") -> OpenedFile:
    """Opens a file. Raises NotFound unless the directory contains a regular file with exactly this name."""
    with _opened(directory) as descriptor:
        names = [] if descriptor is None else _names(descriptor, ending)
        name = next((name for name in names if name == wanted), None)
        if descriptor is not None and name is not None:
            opened = _open_regular(name, descriptor)
            if opened is not None:
                return opened
    raise NotFound(f"No file named {wanted[:200]!r}.", did_you_mean(wanted[:200], names))


def _open_regular(name: str, directory: int) -> OpenedFile | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:  # a link, or removed since it was listed
        return None
    about = os.fstat(descriptor)
    if stat.S_ISREG(about.st_mode):
        return OpenedFile(name, descriptor, about)
    os.close(descriptor)
    return None


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int | None]:
    """Opens a directory; None if it does not exist or is a link."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names(descriptor: int, ending: str) -> list[str]:
    names = [name for name in os.listdir(descriptor) if name.endswith(ending) and not name.startswith(".")]
    return sorted(name for name in names if name.isprintable())[:MAX_FILES]


class StoredFileResponse(StreamingResponse):
    """A file response with ETag and Range support. Closes the file at its end."""

    def __init__(
        self, file: OpenedFile, request: Request, media: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._file = file
        try:
            etag = f'"{file.about.st_ino:x}-{file.bytes:x}-{file.about.st_mtime_ns:x}"'
            headers_in = request.headers
            headers_out = {"accept-ranges": "bytes", "etag": etag, "cache-control": "no-cache", **(headers or {})}
            if is_known(headers_in.get("if-none-match"), etag):
                super().__init__(self._pieces(Span(0, 0)), 304, headers_out)
                return
            span = parse_range(headers_in.get("range"), file.bytes, headers_in.get("if-range"), etag)
            sent = span or Span(0, file.bytes)
            headers_out["content-length"] = str(len(sent))
            if span is not None:
                headers_out["content-range"] = f"bytes {span.start}-{span.end - 1}/{file.bytes}"
            body = Span(0, 0) if request.method == "HEAD" else sent
            super().__init__(self._pieces(body), 206 if span else 200, headers_out, media)
        except BaseException:
            os.close(file.descriptor)
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._file.descriptor)

    async def _pieces(self, span: Span) -> AsyncIterator[bytes]:
        position = span.start
        while position < span.end:
            size = min(PIECE, span.end - position)
            piece = await run_in_threadpool(os.pread, self._file.descriptor, size, position)
            if not piece:  # truncated since: the client sees a short body
                return
            position += len(piece)
            yield piece


def attachment(name: str) -> dict[str, str]:
    """Returns headers of a download; if it is opened anyway, it runs in a sandbox without rights."""
    plain = "".join(character if character.isalnum() or character in "._-" else "_" for character in name)
    plain = plain.encode("ascii", "replace").decode().replace("?", "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"content-disposition": disposition, "content-security-policy": SANDBOX}


@dataclass(frozen=True)
class Span:
    start: int
    end: int  # exclusive

    def __len__(self) -> int:
        return self.end - self.start


def parse_range(header: str | None, size: int, if_range: str | None, etag: str) -> Span | None:
    """Parses `Range` and `If-Range` (RFC 9110). None: the whole file, also for invalid and multiple ranges.

    Raises 416 with the size for a range behind the end.
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
        hint = f"The file has {size} bytes."
        raise HttpError(416, f"Range not satisfiable: {header.strip()[:100]}.", hint, headers=_unsatisfied(size))
    return Span(start, end)


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Returns whether the client already has this version of the file."""
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def _unsatisfied(size: int) -> dict[str, str]:
    return {"content-range": f"bytes */{size}", "accept-ranges": "bytes"}
