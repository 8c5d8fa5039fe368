"""The ASGI application: the declared routes behind authentication, size limits and security headers.

To add a resource, write `web/resources/<noun>.py` with handlers and a tuple `ROUTES`, and add it to `RESOURCES` below:

    class LogQuery(Query):                                # web/request_parsing.py: frozen; unknown parameters are 422
        tail: int = Field(200, ge=1, le=10_000, description="lines from the end")

    class LogText(TypedDict):                             # type of the response; `make api-types` generates the page's
        text: str

    def show_log(call: Call) -> LogText:                  # plain def: runs in a thread and may block;
        directory = call.directory()                      # async def: runs on the event loop and must not block
        return {"text": read_tail(directory, call.query.tail)}

    ROUTES = (
        Endpoint("GET", "/api/runs/{id}/log", show_log, "the end of a run's log", LogQuery, response=LogText),
        Socket("/api/runs/{id}/frames", watch_frames, "live frames"),
    )

- A handler gets a `Call`: `call.context.daemon` (daemon/service.py), `call.entry()` and `call.directory()` of the run
  `{id}` (404 if unknown; looked up, never joined to a path), `call.path`, `call.query`, `call.body`, `call.request`.
- It returns plain data, sent as JSON with the endpoint's `status`, or a Starlette response (files, streams).
- It raises a `PalaestraError`; `web/responses.py` maps each class to a status (NotFound 404, UsageError 422,
  Conflict 409, StoreRefused 507, QueueFull 503). `HttpError(status, message, hint, fields)` is for HTTP itself.
- Bodies are JSON of at most 1 MiB. An upload declares `is_stream=True, takes=("application/zip",)` and `body_limit`,
  and reads `limited_stream(call.request, limit)` in an `async def`.
- A socket handler is `async def watch(context, websocket)`. Host, Origin and token are checked before it runs; the
  socket is closed with 4401 when the token is renewed, and with 1009 after a message above 64 KiB.
- Resources declare no security: without a token every path but the static page and `/login` is 401, known or not.
  A response may set its own `content-security-policy` or `cache-control`; the other headers are added.
- State that starts and ends with the daemon (TensorBoard, frame viewers) is an async context manager in `LIFESPANS`.
- Tests: `tests/web/conftest.py` has `client` (with the token), `anonymous` (without), `context` and `make_run`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from palaestra.web.dispatch import build_pages, build_routes, is_page, load_files
from palaestra.web.openapi import openapi_route
from palaestra.web.resources import (
    checkpoints,
    cluster,
    discoveries,
    evaluations,
    logs,
    metrics,
    recipes,
    requests,
    run_files,
    run_list,
    runs,
    system,
    uploads,
)
from palaestra.web.resources.cluster import clusters_lifespan
from palaestra.web.resources.series_refresh import series_lifespan
from palaestra.web.responses import handle_http_error, handle_internal_error
from palaestra.web.security import login
from palaestra.web.security.authentication import AuthenticationMiddleware
from palaestra.web.security.headers import SecurityHeaders
from palaestra.web.security.limits import CloseOnUnreadBody
from palaestra.web.sockets import events, frames, match
from palaestra.web.sockets.live_view import frames_lifespan
from palaestra.web.tensorboard import endpoints
from palaestra.web.tensorboard.endpoints import tensorboard_lifespan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp

    from palaestra.web.context import AppContext
    from palaestra.web.endpoints import Declared

READING = frozenset({"GET", "HEAD"})
LOGIN = frozenset({("GET", "/login"), ("HEAD", "/login"), ("POST", "/api/login")})
RESOURCES: tuple[tuple[Declared, ...], ...] = (
    login.ROUTES,
    system.ROUTES,
    cluster.ROUTES,
    recipes.ROUTES,
    requests.ROUTES,
    run_list.ROUTES,
    runs.ROUTES,
    events.ROUTES,
    metrics.ROUTES,
    evaluations.ROUTES,
    run_files.ROUTES,
    logs.ROUTES,
    frames.ROUTES,
    match.ROUTES,
    endpoints.ROUTES,
    uploads.ROUTES,
    checkpoints.ROUTES,
    discoveries.ROUTES,
)
LIFESPANS: tuple[Callable[[AppContext], AbstractAsyncContextManager[None]], ...] = (
    series_lifespan,
    tensorboard_lifespan,
    frames_lifespan,
    clusters_lifespan,
)


def build_app(context: AppContext) -> ASGIApp:
    """Wraps everything in authentication, including Starlette's own error pages."""
    app = build_inner_app(context)
    return CloseOnUnreadBody(SecurityHeaders(AuthenticationMiddleware(app, context.token, context.address, is_public)))


def build_inner_app(context: AppContext) -> Starlette:
    """Builds the application without authentication; tests walk its route table."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for begin in LIFESPANS:
                await stack.enter_async_context(begin(context))
            yield

    declared = all_routes()
    app = Starlette(
        routes=build_routes([*declared, openapi_route(declared), *build_pages(load_files())], context),
        exception_handlers={HTTPException: handle_http_error, Exception: handle_internal_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def is_public(method: str, path: str) -> bool:
    """Returns whether a request needs no token; no public response contains a secret."""
    return (method, path) in LOGIN or (method in READING and is_page(path))


def all_routes() -> list[Declared]:
    return [declared for routes in RESOURCES for declared in routes]
