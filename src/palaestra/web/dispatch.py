"""From declared endpoints to what starlette routes: one entry a path, which knows its methods."""

from __future__ import annotations

import inspect
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from palaestra.core.errors import PalaestraError
from palaestra.web.answers import json_answer
from palaestra.web.errors import Refusal, error_answer
from palaestra.web.reading import read_body, read_query
from palaestra.web.route import MUTATIONS, Call, Declared, Endpoint, Socket
from palaestra.web.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive, Scope, Send
    from starlette.websockets import WebSocket

    from palaestra.web.house import House

logger = logging.getLogger(__name__)


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
