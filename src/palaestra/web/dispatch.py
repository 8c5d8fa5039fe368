"""Turns declared endpoints into Starlette routes and calls their handlers."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import mimetypes
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from palaestra.core.errors import PalaestraError
from palaestra.web.endpoints import MUTATIONS, Call, Declared, Endpoint, Socket
from palaestra.web.request_parsing import read_body, read_query
from palaestra.web.responses import HttpError, error_response, json_response
from palaestra.web.security.headers import PAGE_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import Receive, Scope, Send
    from starlette.websockets import WebSocket

    from palaestra.web.context import AppContext
    from palaestra.web.endpoints import Declared


STATIC = Path(__file__).parent / "static"
INDEX, ICON = "index.html", "favicon.svg"
ASSETS = "assets"
FOR_EVER = "public, max-age=31536000, immutable"  # asset names contain a hash of their content
TEXT_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}

NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Palaestra</title></head>
<body><h1>Palaestra</h1>
<p>The daemon is running, but the page is not built. Build it with <code>make ui</code> and restart the daemon.</p>
<p>Everything works without it: <code>palaestra top</code>, <code>palaestra submit</code>, and the API
under <code>/api</code>.</p>
</body></html>
"""


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    media_type: str
    etag: str


def load_files(directory: Path = STATIC) -> dict[str, StaticFile]:
    """Returns files by URL path: "/", "/favicon.svg", "/assets/…", without links. Empty if the page is not built."""
    if not (directory / INDEX).is_file():
        return {}
    found = {"/": _load(directory / INDEX)}
    if (directory / ICON).is_file():
        found[f"/{ICON}"] = _load(directory / ICON)
    for path in sorted((directory / ASSETS).rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[f"/{path.relative_to(directory).as_posix()}"] = _load(path)
    return found


def build_pages(files: dict[str, StaticFile]) -> list[Declared]:
    def show(call: Call) -> Response:
        path = call.request.url.path
        if path == "/" and not files:
            return HTMLResponse(NOT_BUILT)
        if path not in files:
            raise HttpError(404, f"Not found: {path}.")
        return _file_response(files[path], path, call.request.headers.get("if-none-match", ""))

    return [
        Endpoint("GET", "/", show, "the page", media="text/html"),
        Endpoint("GET", f"/{ICON}", show, "its icon", media="image/svg+xml"),
        Endpoint("GET", f"/{ASSETS}/{{name:path}}", show, "files of the page", media="*/*"),
    ]


def is_page(path: str) -> bool:
    """Whether a path is that of a static file, which needs no token; the file may not exist."""
    return path in {"/", f"/{ICON}"} or path.startswith(f"/{ASSETS}/")


def _file_response(file: StaticFile, path: str, known: str) -> Response:
    headers = {"etag": file.etag, "cache-control": FOR_EVER if path.startswith(f"/{ASSETS}/") else "no-cache"}
    if path == "/":
        headers["content-security-policy"] = PAGE_POLICY
    if known == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _load(path: Path) -> StaticFile:
    content = path.read_bytes()
    guessed = TEXT_TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return StaticFile(content, guessed, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


logger = logging.getLogger(__name__)
NICENESS = 5  # relative to the daemon: beside a training on the same core, a quarter of it
LOWEST_PRIORITY = 19
CLIENT_LEFT = 499  # not sent to anyone


def build_routes(declared: Iterable[Declared], context: AppContext) -> list[BaseRoute]:
    """Returns routes in the order of declaration, paths with fewer parameters first where two could match."""
    paths: dict[str, dict[str, Endpoint]] = {}
    sockets = []
    for one in declared:
        if isinstance(one, Socket):
            sockets.append(_socket_route(one, context))
        elif one.method in paths.setdefault(one.path, {}):
            raise ValueError(f"{one.method} {one.path} is declared twice")
        else:
            paths[one.path][one.method] = one
    ordered = sorted(paths.items(), key=lambda item: item[0].count("{"))
    pool = LowPriorityPool()
    return [*sockets, *(Route(path, PathApp(methods, context, pool)) for path, methods in ordered)]


class PathApp:
    """ASGI app of one path with all its methods."""

    def __init__(self, methods: dict[str, Endpoint], context: AppContext, pool: LowPriorityPool) -> None:
        self.methods = methods
        self._context = context
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            return await self._handle(request)
        except PalaestraError as error:
            return error_response(error)

    async def _handle(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        endpoint = self.methods.get(method)
        if endpoint is None:
            allowed = ", ".join(sorted({*self.methods, *(["HEAD"] if "GET" in self.methods else [])}))
            message = f"{request.url.path} has no method {request.method}."
            raise HttpError(405, message, f"Allowed: {allowed}.", headers={"allow": allowed})
        call = Call(self._context, request, read_query(endpoint, request), await read_body(endpoint, request))
        if inspect.iscoroutinefunction(endpoint.handler):
            response = to_response(endpoint, await endpoint.handler(call))
        elif endpoint.is_cpu_bound:
            response = await self._pool.run(request, partial(call_handler, endpoint, call))
        else:
            response = await run_in_threadpool(call_handler, endpoint, call)
        if endpoint.method in MUTATIONS:
            logger.info("%s %s", request.method, request.url.path)
        return response


def call_handler(endpoint: Endpoint, call: Call) -> Response:
    """Runs in a thread, including the JSON encoding of a large response."""
    return to_response(endpoint, endpoint.handler(call))


def to_response(endpoint: Endpoint, result: Any) -> Response:
    if isinstance(result, Response):
        return result
    return Response(status_code=204) if endpoint.status == 204 else json_response(result, endpoint.status)


def _socket_route(socket: Socket, context: AppContext) -> WebSocketRoute:
    async def serve(websocket: WebSocket) -> None:
        await socket.handler(context, websocket)

    return WebSocketRoute(socket.path, serve)


class LowPriorityPool:
    """Runs CPU-bound handlers in low-priority threads, at most one for two cores: the rest is for trainings and the
    browser."""

    def __init__(self) -> None:
        self.max_threads = max(1, (os.cpu_count() or 1) // 2)
        self._slots = asyncio.Semaphore(self.max_threads)

    async def run(self, request: Request, function: Callable[[], Response]) -> Response:
        """Waits for a thread. Skips the call if the client has disconnected by then: a user who zooms on no longer
        needs the curves of the previous zoom level."""
        async with self._slots:
            if await request.is_disconnected():
                return Response(status_code=CLIENT_LEFT)
            job = Job(function)
            threading.Thread(target=job.run, name="palaestra-compute", daemon=True).start()
            return await asyncio.wrap_future(job.response)


class Job:
    """One call in a daemon thread. An executor's threads would delay the exit of the daemon until they are done; these
    calls only read and cache, so they can be abandoned at any point."""

    def __init__(self, function: Callable[[], Response]) -> None:
        self.response: Future[Response] = Future()
        self.response.set_running_or_notify_cancel()  # cannot be cancelled any more
        self._function = function

    def run(self) -> None:
        lower_thread_priority()
        with self:
            self.response.set_result(self._function())

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Passes an error on to the waiting request."""
        if error is not None:
            self.response.set_exception(error)
        return True


def lower_thread_priority() -> None:
    """Lowers the priority of this thread only, relative to the daemon's. Does nothing outside of Linux, where threads
    have no priority of their own."""
    if os.uname().sysname == "Linux":
        thread = threading.get_native_id()
        current = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(current + NICENESS, LOWEST_PRIORITY))
