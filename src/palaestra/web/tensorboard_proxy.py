"""What passes between a signed-in browser and the TensorBoard behind us: few headers, no cookies, no other hosts."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from palaestra.web.errors import Refusal

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from palaestra.web.tensorboard_process import TensorBoardProcess

PATIENCE_SECONDS = 60.0
PIECE = 64 << 10
MOST_HEADER_BYTES = 4096  # of one header that is passed on
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


class _Connection(http.client.HTTPConnection):
    def __init__(self, connected: socket.socket) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        connected.settimeout(PATIENCE_SECONDS)
        self.sock = connected


class ProxiedAnswer(StreamingResponse):
    """Owns the connection: it ends with the answer, or when the caller has gone."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection, self._source = connection, answer
        super().__init__(_pieces(answer), answer.status, _passed_back(answer))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._source.close()
            self._connection.close()


def ask(board: TensorBoardProcess, request: Request, body: bytes) -> ProxiedAnswer:
    """Blocks until the answer begins. 502 when there is none, or none that makes sense."""
    try:
        connection = _Connection(board.connect())
    except OSError as error:
        raise _no_answer(str(error)) from error
    try:
        connection.request(request.method, _target(request), body or None, _passed_on(request))
        return ProxiedAnswer(connection, connection.getresponse())
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        raise _no_answer(type(error).__name__) from error


def tightened(policy: str) -> str:
    """TensorBoard's own policy for its pages, without foreign hosts, and framed by nobody but us."""
    directives = {}
    for directive in policy.split(";"):
        name, *sources = directive.split() or [""]
        if name:
            directives[name] = " ".join(source for source in sources if not _is_foreign(source)) or "'none'"
    return "; ".join(f"{name} {sources}" for name, sources in {**directives, **OURS}.items())


def _is_foreign(source: str) -> bool:
    return "*" in source or source.startswith(("http:", "https:", "ws:", "wss:"))


def _target(request: Request) -> str:
    """Path and query as they came, undecoded."""
    path = request.scope["raw_path"].partition(b"?")[0].decode("ascii", "strict")
    query = request.scope["query_string"].decode("ascii", "strict")
    return f"{path}?{query}" if query else path


def _passed_on(request: Request) -> dict[str, str]:
    headers = {name: request.headers[name] for name in TO_BOARD if name in request.headers}
    return {name: value for name, value in headers.items() if len(value) <= MOST_HEADER_BYTES}


def _passed_back(answer: http.client.HTTPResponse) -> dict[str, str]:
    headers = {name: answer.headers[name] for name in FROM_BOARD if name in answer.headers}
    headers = {name: value for name, value in headers.items() if len(value) <= MOST_HEADER_BYTES}
    policy = answer.headers.get("content-security-policy", "")
    headers["content-security-policy"] = tightened(policy) if policy else NO_POLICY
    headers["x-frame-options"] = "SAMEORIGIN"
    return headers


def _pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := answer.read(PIECE):
        yield piece


def _no_answer(why: str) -> Refusal:
    return Refusal(502, f"TensorBoard does not answer ({why}).", "Open it again from the run's page.")
