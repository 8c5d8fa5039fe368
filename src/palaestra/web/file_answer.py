"""A file as an answer: whole or one range of it, in pieces, whatever its size."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from palaestra.web.ranges import Span, is_known, wanted_span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from palaestra.web.listing import OpenedFile

PIECE = 256 << 10
SANDBOX = "default-src 'none'; sandbox; frame-ancestors 'none'"


class FileAnswer(StreamingResponse):
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
