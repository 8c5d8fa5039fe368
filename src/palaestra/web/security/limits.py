"""Limits of connections: how many are open, how long headers may take, and what happens to unread bodies."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from palaestra.web.responses import encode_json, error_data
from palaestra.web.security.authentication import CREDENTIAL_KEY
from palaestra.web.security.headers import add_security_headers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLOSE = (b"connection", b"close")
HEADER_SECONDS = 10.0  # from the first byte of a request (or the connection) to the end of its headers
HEADER_BYTES = 32 * 1024  # of the request line and all headers together
MESSAGES = {
    400: "The HTTP request is malformed.",
    408: "The request arrived too slowly.",
    414: "The URL is too long.",
    431: "The headers are too long.",
    503: "Too many connections are open. Connections without a token are closed first.",
}
MAX_CONNECTIONS = 512  # including WebSockets
MAX_WITHOUT_TOKEN = 128
MAX_WITHOUT_TOKEN_PER_ADDRESS = 64
_numbers = itertools.count()


class CloseOnUnreadBody:
    """Closes the connection after a response that starts before the whole body was read."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _announces_body(scope):
            await self.app(scope, receive, send)
            return
        is_read = False

        async def receive_counted() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and not is_read:
                headers = [pair for pair in message.get("headers", []) if pair[0].lower() != b"connection"]
                message = {**message, "headers": [*headers, CLOSE]}
            await send(message)

        await self.app(scope, receive_counted, send_closing)


def _announces_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


class LimitedConnection:
    """Mixin of both protocols of the server, HTTP and WebSocket, that knows whether its client has a token.

    A client sends its token with its first request, a few milliseconds after it connects. Few connections without one
    are allowed, and the oldest is closed for the newest; connections with a token are never closed for this.
    """

    scope: Any = None  # of the last request; AuthenticationMiddleware adds CREDENTIAL_KEY
    client: tuple[str, int] | None = None
    transport: asyncio.Transport

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.number = next(_numbers)

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def has_token(self) -> bool:
        return bool(self.scope and self.scope.get(CREDENTIAL_KEY))

    def refuse(self) -> None:
        """Closes the connection at once; unsent data is lost."""
        self.transport.abort()


class LimitedWebSocket(LimitedConnection, WebSocketsSansIOProtocol):
    pass


def connection_to_close(connections: Iterable[LimitedConnection]) -> LimitedConnection | None:
    """Returns the connection to close for the newest one; None while the limits allow all."""
    present = [one for one in connections if not one.transport.is_closing()]
    without_token = sorted((one for one in present if not one.has_token), key=lambda one: one.number)
    if not without_token:
        return None
    address, count = Counter(one.address for one in without_token).most_common(1)[0]
    if count > MAX_WITHOUT_TOKEN_PER_ADDRESS or len(without_token) > MAX_WITHOUT_TOKEN:
        return next(one for one in without_token if one.address == address)
    return without_token[0] if len(present) > MAX_CONNECTIONS else None


class TimeoutHttpProtocol(LimitedConnection, H11Protocol):
    """uvicorn's HTTP protocol with a time limit for headers and JSON errors for malformed requests."""

    header_seconds = HEADER_SECONDS
    header_timer: asyncio.TimerHandle | None = None
    has_request_line = False  # the request line has arrived completely

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_header_timer()
        refused = connection_to_close(one for one in self.connections if isinstance(one, LimitedConnection))
        if refused is not None:
            refused.refuse()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_header_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """h11 stays idle while headers are incomplete; the timer runs from the first byte until they are complete."""
        self.has_request_line = b"\n" in data or (self.has_request_line and self.conn.their_state is h11.IDLE)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_header_timer()
        elif self.header_timer is None and self.timeout_keep_alive_task is None:
            self._start_header_timer()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._cancel_header_timer()
        super().handle_websocket_upgrade(event)

    def handle_events(self) -> None:
        """Handles bytes in the URL that uvicorn does not expect."""
        try:
            super().handle_events()
        except UnicodeDecodeError:
            self.send_error(400)

    def refuse(self) -> None:
        """Sends 503 to a client without a complete request; cuts off a response in progress."""
        if self.conn.our_state is h11.IDLE:
            self.send_error(503)
        else:
            super().refuse()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's own text
        """h11 only reports an error state; the parsed part distinguishes a long URL from long headers."""
        pending_bytes = len(self.conn.trailing_data[0]) if self.conn.their_state is h11.ERROR else 0
        is_too_long = pending_bytes > HEADER_BYTES
        self.send_error((431 if self.has_request_line else 414) if is_too_long else 400)

    def send_error(self, status: int) -> None:
        if self.transport.is_closing() or self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.close()
            return
        body = encode_json(error_data(MESSAGES[status]))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(b"connection", b"close")]
        start = h11.Response(status_code=status, headers=add_security_headers(headers), reason=STATUS_PHRASES[status])
        for event in (start, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_header_timer(self) -> None:
        self.header_timer = self.loop.call_later(self.header_seconds, self._on_header_timeout)

    def _cancel_header_timer(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None

    def _on_header_timeout(self) -> None:
        self.header_timer = None
        self.send_error(408)
