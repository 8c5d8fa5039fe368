"""From declared endpoints to what starlette routes: one entry a path, which knows its methods."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from palaestra.core.errors import PalaestraError
from palaestra.web.endpoints import MUTATIONS, Call, Declared, Endpoint, Socket
from palaestra.web.request_parsing import read_body, read_query
from palaestra.web.responses import Refusal, error_answer, json_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import Receive, Scope, Send
    from starlette.websockets import WebSocket

    from palaestra.web.context import House

logger = logging.getLogger(__name__)
NICENESS = 5  # steps behind the daemon: next to a training that wants the same core, a quarter of it
LOWEST_PRIORITY = 19
CLIENT_LEFT = 499  # nobody sees it


def build_routes(declared: Iterable[Declared], house: House) -> list[BaseRoute]:
    """In the order of declaration, paths with fewer holes first where two could fit."""
    paths: dict[str, dict[str, Endpoint]] = {}
    sockets = []
    for one in declared:
        if isinstance(one, Socket):
            sockets.append(_socket_route(one, house))
        elif one.method in paths.setdefault(one.path, {}):
            raise ValueError(f"{one.method} {one.path} is declared twice")
        else:
            paths[one.path][one.method] = one
    ordered = sorted(paths.items(), key=lambda item: item[0].count("{"))
    bench = Workbench()
    return [*sockets, *(Route(path, PathApp(methods, house, bench)) for path, methods in ordered)]


class PathApp:
    """All methods of one path."""

    def __init__(self, methods: dict[str, Endpoint], house: House, bench: Workbench) -> None:
        """`bench`: where laborious calls are worked on, of all paths."""
        self.methods = methods
        self._house = house
        self._bench = bench

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handle(request)
        except PalaestraError as error:
            return error_answer(error)

    async def _handle(self, request: Request) -> Response:
        wanted = "GET" if request.method == "HEAD" else request.method
        endpoint = self.methods.get(wanted)
        if endpoint is None:
            allowed = ", ".join(sorted({*self.methods, *(["HEAD"] if "GET" in self.methods else [])}))
            message = f"{request.method} cannot be done to {request.url.path}."
            raise Refusal(405, message, f"It knows: {allowed}.", headers={"allow": allowed})
        call = Call(self._house, request, read_query(endpoint, request), await read_body(endpoint, request))
        if inspect.iscoroutinefunction(endpoint.handler):
            answer = as_answer(endpoint, await endpoint.handler(call))
        elif endpoint.is_laborious:
            answer = await self._bench.work(request, partial(work, endpoint, call))
        else:
            answer = await run_in_threadpool(work, endpoint, call)
        if endpoint.method in MUTATIONS:
            logger.info("%s %s", request.method, request.url.path)
        return answer


def work(endpoint: Endpoint, call: Call) -> Response:
    """In a thread: a large answer is also written as JSON there, and the loop goes on meanwhile."""
    return as_answer(endpoint, endpoint.handler(call))


def as_answer(endpoint: Endpoint, result: Any) -> Response:
    if isinstance(result, Response):
        return result
    return Response(status_code=204) if endpoint.status == 204 else json_answer(result, endpoint.status)


def _socket_route(socket: Socket, house: House) -> WebSocketRoute:
    async def serve(websocket: WebSocket) -> None:
        await socket.handler(house, websocket)

    return WebSocketRoute(socket.path, serve)


class Workbench:
    """Has places for half of the cores: the others are for those who look at the answers. More threads would only wait
    for each other, and the browser beside them with them."""

    def __init__(self) -> None:
        self.places = max(1, (os.cpu_count() or 1) // 2)
        self._queue = asyncio.Semaphore(self.places)

    async def work(self, request: Request, what: Callable[[], Response]) -> Response:
        """Done when there is a place, unless whoever asked has left by then: a person who zooms on does not want the
        curves of the step before."""
        async with self._queue:
            if await request.is_disconnected():
                return Response(status_code=CLIENT_LEFT)
            piece = Piece(what)
            threading.Thread(target=piece.do, name="palaestra-workbench", daemon=True).start()
            return await asyncio.wrap_future(piece.answer)


class Piece:
    """What one thread does. The threads of an executor would be waited for when the daemon leaves, however long they
    still have to do; what these read and keep can be left at any point."""

    def __init__(self, what: Callable[[], Response]) -> None:
        self.answer: Future[Response] = Future()
        self.answer.set_running_or_notify_cancel()  # from now on nobody can take it back, and it is told once
        self._what = what

    def do(self) -> None:
        step_back()
        with self:
            self.answer.set_result(self._what())

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """An error is for whoever waits for the answer."""
        if error is not None:
            self.answer.set_exception(error)
        return True


def step_back() -> None:
    """This thread alone; where threads have no priority of their own (outside of Linux), nothing. Further back than a
    daemon that was started with little priority itself: nobody may step forward."""
    if os.uname().sysname == "Linux":
        thread = threading.get_native_id()
        here = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(here + NICENESS, LOWEST_PRIORITY))
