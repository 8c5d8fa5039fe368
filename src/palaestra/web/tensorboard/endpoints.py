"""TensorBoard on demand for chosen runs, behind the daemon's authentication: endpoints and proxy."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
from secrets import compare_digest
from typing import TYPE_CHECKING, TypedDict

from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from palaestra.core.errors import NotFound
from palaestra.daemon.settings import DaemonDirectory
from palaestra.web.endpoints import MEBIBYTE, Call, Endpoint
from palaestra.web.request_parsing import Body, Query, limited_stream
from palaestra.web.responses import HttpError
from palaestra.web.tensorboard.process import TensorBoardProcess, clear, start_tensorboard

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import AppContext
    from palaestra.web.tensorboard.process import TensorBoardProcess

logger = logging.getLogger(__name__)

SERVICE = "tensorboard"
IDLE_SECONDS = 300.0
CHECK_SECONDS = 5.0
MAX_RUNS = 100
FORMS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
_UNDER = "/tensorboard/{key}/{rest:path}"
TIMEOUT_SECONDS = 60.0
PIECE = 64 << 10
MAX_HEADER_BYTES = 4096  # of one forwarded header
TO_BOARD = ("accept", "accept-encoding", "content-type", "if-none-match", "if-modified-since")
FROM_BOARD = (
    "cache-control",
    "content-encoding",
    "content-length",
    "content-type",
    "etag",
    "expires",
    "last-modified",
    "vary",
)
NO_POLICY = "default-src 'none'; frame-ancestors 'self'"
OURS = {"frame-ancestors": "'self'", "base-uri": "'self'", "form-action": "'none'", "object-src": "'none'"}


class TensorBoardBody(Body):
    runs: list[str] = Field(min_length=1, max_length=MAX_RUNS, description="runs to show")


class AnyQuery(Query):
    """Any query, because TensorBoard's page defines it."""

    model_config = ConfigDict(frozen=True, extra="allow")


class TensorBoardService:
    """At most one TensorBoard process: a request for other runs ends the previous one."""

    def __init__(self, directory: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self._directory = directory
        self._idle_seconds = idle_seconds
        self._lock = asyncio.Lock()
        self.board: TensorBoardProcess | None = None

    async def open(self, runs: list[tuple[str, RunDirectory]]) -> TensorBoardProcess:
        async with self._lock:
            wanted = frozenset(directory.id for _, directory in runs)
            if self.board is not None and self.board.is_alive and self.board.runs == wanted:
                return self.board
            await self._end("other runs were chosen")
            self.board = await asyncio.to_thread(start_tensorboard, self._directory, runs)
            logger.info("TensorBoard shows %d runs (process %d)", len(runs), self.board.process.pid)
            return self.board

    def find(self, key: str) -> TensorBoardProcess:
        board = self.board
        if board is None or not compare_digest(board.key.encode(), key.encode("utf-8", "replace")):
            raise NotFound("This TensorBoard has ended.", "Open it again from the run's page.")
        return board

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.end_if_idle()

    async def end_if_idle(self) -> None:
        async with self._lock:
            if self.board is not None and (not self.board.is_alive or self.board.idle_seconds > self._idle_seconds):
                await self._end("idle")

    async def close(self) -> None:
        async with self._lock:
            await self._end("the daemon ends")

    async def _end(self, reason: str) -> None:
        board, self.board = self.board, None
        if board is not None:
            logger.info("TensorBoard ends: %s", reason)
            await asyncio.to_thread(board.stop)


@contextlib.asynccontextmanager
async def tensorboard_lifespan(context: AppContext) -> AsyncIterator[None]:
    directory = DaemonDirectory(context.daemon.root).path / "tensorboard"
    await asyncio.to_thread(clear, directory)
    service = context.services[SERVICE] = TensorBoardService(directory)
    watching = asyncio.create_task(service.watch())
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await service.close()


class TensorBoardPage(TypedDict):
    path: str


async def open_tensorboard(call: Call) -> TensorBoardPage:
    """Starts TensorBoard and returns its path when it responds, after a few seconds."""
    daemon = call.context.daemon
    entries = {entry.id: entry for entry in (daemon.get(run) for run in call.body.runs)}
    board = await _service(call).open([(entry.record.name, daemon.directory(entry.id)) for entry in entries.values()])
    return {"path": f"{board.prefix}/"}


def proxy_get(call: Call) -> Response:
    return forward_request(_service(call).find(call.path["key"]), call.request, b"")


async def proxy_post(call: Call) -> Response:
    board = _service(call).find(call.path["key"])
    pieces = [piece async for piece in limited_stream(call.request, MEBIBYTE)]
    return await run_in_threadpool(forward_request, board, call.request, b"".join(pieces))


def _service(call: Call) -> TensorBoardService:
    service = call.context.services[SERVICE]
    assert isinstance(service, TensorBoardService)
    return service


class _Connection(http.client.HTTPConnection):
    def __init__(self, connected: socket.socket) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        connected.settimeout(TIMEOUT_SECONDS)
        self.sock = connected


class ProxiedResponse(StreamingResponse):
    """A forwarded response. Closes the connection at its end."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._source = connection, response
        super().__init__(_pieces(response), response.status, _returned_headers(response))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._source.close()
            self._connection.close()


def forward_request(board: TensorBoardProcess, request: Request, body: bytes) -> ProxiedResponse:
    """Forwards a request and waits for the start of the response. Raises 502 without a valid one."""
    try:
        connection = _Connection(board.connect())
    except OSError as error:
        raise _bad_gateway(str(error)) from error
    try:
        connection.request(request.method, _target(request), body or None, _forwarded_headers(request))
        return ProxiedResponse(connection, connection.getresponse())
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        raise _bad_gateway(type(error).__name__) from error


def restrict_policy(policy: str) -> str:
    """Restricts TensorBoard's content security policy: no foreign hosts, framed only by the daemon's page."""
    directives = {}
    for directive in policy.split(";"):
        name, *sources = directive.split() or [""]
        if name:
            directives[name] = " ".join(source for source in sources if not _is_foreign(source)) or "'none'"
    return "; ".join(f"{name} {sources}" for name, sources in {**directives, **OURS}.items())


def _is_foreign(source: str) -> bool:
    return "*" in source or source.startswith(("http:", "https:", "ws:", "wss:"))


def _target(request: Request) -> str:
    """Returns path and query as received, undecoded."""
    path = request.scope["raw_path"].partition(b"?")[0].decode("ascii", "strict")
    query = request.scope["query_string"].decode("ascii", "strict")
    return f"{path}?{query}" if query else path


def _forwarded_headers(request: Request) -> dict[str, str]:
    headers = {name: request.headers[name] for name in TO_BOARD if name in request.headers}
    return {name: value for name, value in headers.items() if len(value) <= MAX_HEADER_BYTES}


def _returned_headers(response: http.client.HTTPResponse) -> dict[str, str]:
    headers = {name: response.headers[name] for name in FROM_BOARD if name in response.headers}
    headers = {name: value for name, value in headers.items() if len(value) <= MAX_HEADER_BYTES}
    policy = response.headers.get("content-security-policy", "")
    headers["content-security-policy"] = restrict_policy(policy) if policy else NO_POLICY
    headers["x-frame-options"] = "SAMEORIGIN"
    return headers


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := response.read(PIECE):
        yield piece


def _bad_gateway(reason: str) -> HttpError:
    return HttpError(502, f"TensorBoard does not respond ({reason}).", "Open it again from the run's page.")


ROUTES = (
    Endpoint(
        "POST",
        "/api/tensorboard",
        open_tensorboard,
        "open TensorBoard for some runs",
        body=TensorBoardBody,
        response=TensorBoardPage,
        errors=(409,),
    ),
    Endpoint("GET", _UNDER, proxy_get, "what TensorBoard responses", AnyQuery, media="*/*", errors=(502,)),
    Endpoint(
        "POST",
        _UNDER,
        proxy_post,
        "what TensorBoard responses",
        AnyQuery,
        media="*/*",
        errors=(502,),
        takes=FORMS,
        is_stream=True,
    ),
)
