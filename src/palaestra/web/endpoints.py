"""How a resource declares its routes; OpenAPI, method table and checks are made from the same declarations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic import BaseModel
    from starlette.requests import Request
    from starlette.websockets import WebSocket

    from palaestra.daemon.entry import Entry
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import House

MEBIBYTE = 1 << 20
MUTATIONS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Call:
    """One request, checked: who calls is known, query and body are of the declared types."""

    house: House
    request: Request
    query: Any  # the endpoint's `query` model, or None
    body: Any  # the endpoint's `body` model, or None

    @property
    def path(self) -> dict[str, str]:
        return dict(self.request.path_params)

    def entry(self) -> Entry:
        """The run that `{id}` names; NotFound (404) when there is none."""
        return self.house.daemon.get(self.path["id"])

    def directory(self) -> RunDirectory:
        """Of the run that `{id}` names. The path is made from the id that was found, never from what was asked."""
        return self.house.daemon.directory(self.entry().id)


@dataclass(frozen=True)
class Endpoint:
    """One method of one path.

    A handler that is `async def` runs on the loop and must not block it; a plain `def` runs in a thread.
    It returns plain data (sent as JSON with `status`) or a starlette Response, and raises errors of the house.
    """

    method: str
    path: str  # "/api/runs/{id}/log"
    handler: Callable[[Call], Any] | Callable[[Call], Awaitable[Any]]
    summary: str  # one line, for the OpenAPI document
    query: type[BaseModel] | None = None  # unknown and doubled parameters are refused; tuple fields may be repeated
    body: type[BaseModel] | None = None  # JSON
    is_body_optional: bool = False  # no body at all is as good as {}
    response: Any = None  # type of the JSON that is sent with `status`: a TypedDict (web/openapi.py)
    status: int = 200
    media: str = "application/json"  # of the answer
    other_media: tuple[str, ...] = ()  # that it has when the query asks for it
    errors: tuple[int, ...] = ()  # statuses beyond 400, 401, 403, 404, 405, 413, 415, 421, 422
    takes: tuple[str, ...] = ("application/json",)  # content types of a mutation
    body_limit: int = MEBIBYTE
    is_laborious: bool = False  # keeps a core busy, for as long as it lasts: few such at a time
    is_stream: bool = False  # the handler reads `limited_stream(call)` itself (an upload)


@dataclass(frozen=True)
class Socket:
    """A WebSocket; the guard has checked Host, Origin and token before the handler sees it."""

    path: str
    handler: Callable[[House, WebSocket], Awaitable[None]]
    summary: str
    messages: tuple[Any, ...] = ()  # types of the JSON texts that it sends
    receives: tuple[type[BaseModel], ...] = ()


Declared = Endpoint | Socket
