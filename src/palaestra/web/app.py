"""The ASGI application: one list of declared routes behind one guard.

How a resource enters. A file `web/<noun>.py` holds handlers and a tuple `ROUTES` of `Endpoint` and `Socket`
(`web/route.py`), and one line in `web/resources.py` names it:

    class LogQuery(Query):                                # web/reading.py: frozen, unknown parameters refused (422)
        tail: int = Field(200, ge=1, le=10_000, description="lines from the end")

    class LogText(TypedDict):                             # types of the response; the page's are generated from them
        text: str                                         # (`make api-types`)

    def show_log(call: Call) -> LogText:                  # plain def: runs in a thread and may block;
        directory = call.directory()                      # async def: runs on the loop and must not
        return {"text": read_tail(directory, call.query.tail)}

    ROUTES = (
        Endpoint("GET", "/api/runs/{id}/log", show_log, "the end of a run's log", LogQuery, response=LogText),
        Socket("/api/runs/{id}/frames", watch_frames, "live frames"),
    )

- A handler gets a `Call`: `call.house.daemon` (daemon/service.py), `call.entry()` and `call.directory()` of the run
  that `{id}` names (404 otherwise; looked up, never joined), `call.path`, `call.query`, `call.body`, `call.request`.
- It returns plain data, sent as JSON with the endpoint's `status`, or any starlette Response (files, streams).
- It raises errors of the house: `web/errors.py` knows the status of each (NotFound 404, UsageError 422, Conflict 409,
  StoreRefused 507, QueueFull 503); `Refusal(status, message, hint, fields)` where HTTP itself is meant (416, 413).
- Bodies are JSON of at most 1 MiB; an upload says `is_stream=True, takes=("application/zip",), body_limit=1 << 30` and
  reads `limited_stream(call.request, limit)` from `web/reading.py` in an `async def`.
- A socket handler is `async def watch(house, websocket)`; the guard has checked Host, Origin and token and closes it
  by itself (4401) when the token is renewed. It accepts, receives and sends. Messages above 64 KiB end it with 1009.
- Nobody declares security: without a token everything but the static page and `/login` is 401, known path or not.
  An answer may bring a `content-security-policy` or `cache-control` of its own; every other header is added.
- What must begin and end with the daemon (a TensorBoard, frame watchers) is an async context manager
  `def lifespan(house) -> AbstractAsyncContextManager` in `web/lifespans.py`'s list.
- Tests: `tests/web/conftest.py` has `client` (with the token), `stranger` (without), `house`, `make_run`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from palaestra.web.dispatch import build_routes
from palaestra.web.errors import answer_defect, answer_http_error
from palaestra.web.headers import SecurityHeaders
from palaestra.web.lifespans import LIFESPANS
from palaestra.web.limits import HangUpOnUnread
from palaestra.web.openapi import openapi_route
from palaestra.web.pages import build_pages, is_page, load_files
from palaestra.web.resources import all_routes
from palaestra.web.security import Guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from palaestra.web.house import House

READING = frozenset({"GET", "HEAD"})
LOGIN = frozenset({("GET", "/login"), ("HEAD", "/login"), ("POST", "/api/login")})


def build_app(house: House) -> ASGIApp:
    """The guard stands outside of everything, also of starlette's own error pages."""
    app = build_inner_app(house)
    return HangUpOnUnread(SecurityHeaders(Guard(app, house.token, house.place, is_public)))


def build_inner_app(house: House) -> Starlette:
    """Without guard; tests walk its route table."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for begin in LIFESPANS:
                await stack.enter_async_context(begin(house))
            yield

    declared = all_routes()
    app = Starlette(
        routes=build_routes([*declared, openapi_route(declared), *build_pages(load_files())], house),
        exception_handlers={HTTPException: answer_http_error, Exception: answer_defect},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def is_public(method: str, path: str) -> bool:
    """All that may be asked without a token; no secret is told by any of it."""
    return (method, path) in LOGIN or (method in READING and is_page(path))
