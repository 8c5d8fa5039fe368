"""How a resource declares its routes. The OpenAPI document and all checks use the same declarations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic import BaseModel
    from starlette.requests import Request
    from starlette.websockets import WebSocket

    from palaestra.daemon.run_entry import RunEntry
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import AppContext

MEBIBYTE = 1 << 20
MUTATIONS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Call:
    """One authenticated request; query and body have the declared types."""

    context: AppContext
    request: Request
    query: Any  # the endpoint's `query` model, or None
    body: Any  # the endpoint's `body` model, or None

    @property
    def path(self) -> dict[str, str]:
        return dict(self.request.path_params)

    def entry(self) -> RunEntry:
        """Returns the run `{id}`. Raises NotFound (404)."""
        return self.context.daemon.get(self.path["id"])

    def directory(self) -> RunDirectory:
        """Returns the directory of the run `{id}`. The path is built from the id that was found, never from the URL."""
        return self.context.daemon.directory(self.entry().id)


@dataclass(frozen=True)
class Endpoint:
    """One method of one path.

    An `async def` handler runs on the event loop and must not block it; a plain `def` runs in a thread.
    It returns plain data (sent as JSON with `status`) or a Starlette response, and raises `PalaestraError`.
    """

    method: str
    path: str  # "/api/runs/{id}/log"
    handler: Callable[[Call], Any] | Callable[[Call], Awaitable[Any]]
    summary: str  # one line, for the OpenAPI document
    query: type[BaseModel] | None = None  # unknown and duplicate parameters are errors; tuple fields may be repeated
    body: type[BaseModel] | None = None  # JSON
    is_body_optional: bool = False  # a missing body is {}
    response: Any = None  # type of the JSON response: a TypedDict or dataclass (web/openapi.py)
    status: int = 200
    media: str = "application/json"  # of the response
    other_media: tuple[str, ...] = ()  # if the query requests it
    errors: tuple[int, ...] = ()  # statuses beyond 400, 401, 403, 404, 405, 413, 415, 421, 422
    takes: tuple[str, ...] = ("application/json",)  # content types of a mutation
    body_limit: int = MEBIBYTE
    is_cpu_bound: bool = False  # runs in LowPriorityPool: few at a time
    is_stream: bool = False  # the handler reads `limited_stream(call.request, limit)` itself (an upload)


@dataclass(frozen=True)
class Socket:
    """A WebSocket; Host, Origin and token are checked before the handler runs."""

    path: str
    handler: Callable[[AppContext, WebSocket], Awaitable[None]]
    summary: str
    messages: tuple[Any, ...] = ()  # types of the JSON messages that it sends
    receives: tuple[type[BaseModel], ...] = ()


Declared = Endpoint | Socket
