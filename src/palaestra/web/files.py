"""Files of a run by name. A name is looked up in what the directory holds; no path is ever made of what was asked."""

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

MAX_FILES = 10_000  # of one directory; beyond that it is no place for people to look through
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
    """Whoever gets it closes the descriptor."""

    name: str
    descriptor: int
    about: os.stat_result

    @property
    def bytes(self) -> int:
        return self.about.st_size


def list_files(directory: Path, ending: str = "") -> list[ListedFile]:
    """Regular files, newest first; links, hidden files and whatever else lies there are passed over."""
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
    """NotFound unless the directory holds a regular file of exactly that name."""
    with _opened(directory) as descriptor:
        names = [] if descriptor is None else _names(descriptor, ending)
        name = next((name for name in names if name == wanted), None)
        if descriptor is not None and name is not None:
            opened = _open_regular(name, descriptor)
            if opened is not None:
                return opened
    raise NotFound(f"There is no file {wanted[:200]!r} there.", did_you_mean(wanted[:200], names))


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
    """None when there is no such directory, or a link in its place."""
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
    """Owns the file: it is closed when the answer is out, or the caller gone."""

    def __init__(
        self, file: OpenedFile, request: Request, media: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._file = file
        try:
            etag = f'"{file.about.st_ino:x}-{file.bytes:x}-{file.about.st_mtime_ns:x}"'
            asked = request.headers
            said = {"accept-ranges": "bytes", "etag": etag, "cache-control": "no-cache", **(headers or {})}
            if is_known(asked.get("if-none-match"), etag):
                super().__init__(self._pieces(Span(0, 0)), 304, said)
                return
            span = wanted_span(asked.get("range"), file.bytes, asked.get("if-range"), etag)
            sent = span or Span(0, file.bytes)
            said["content-length"] = str(len(sent))
            if span is not None:
                said["content-range"] = f"bytes {span.start}-{span.end - 1}/{file.bytes}"
            body = Span(0, 0) if request.method == "HEAD" else sent
            super().__init__(self._pieces(body), 206 if span else 200, said, media)
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
            if not piece:  # cut short meanwhile: the length that was promised is not kept, and the caller sees it
                return
            position += len(piece)
            yield piece


def attachment(name: str) -> dict[str, str]:
    """To be saved, not shown; and if it is shown all the same, without any rights."""
    plain = "".join(character if character.isalnum() or character in "._-" else "_" for character in name)
    plain = plain.encode("ascii", "replace").decode().replace("?", "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"content-disposition": disposition, "content-security-policy": SANDBOX}


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
        raise HttpError(416, f"There is nothing at {header.strip()[:100]}.", hint, headers=_unsatisfied(size))
    return Span(start, end)


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Whether the caller has exactly this content already."""
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def _unsatisfied(size: int) -> dict[str, str]:
    return {"content-range": f"bytes */{size}", "accept-ranges": "bytes"}
