"""A caller that sends more than is read of it is answered and let go, not listened to for ever."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from palaestra.web.responses import encode, error_data
from palaestra.web.security.authentication import SCOPE_KEY
from palaestra.web.security.headers import with_security

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLOSE = (b"connection", b"close")
HEADER_SECONDS = 10.0  # from the first byte of a request (or the connection) to the end of its headers
HEADER_BYTES = 32 * 1024  # of the request line and all headers together
MESSAGES = {
    400: "This is not an HTTP request that can be read.",
    408: "The request came too slowly.",
    414: "The address is too long.",
    431: "The headers are too long.",
    503: "Too many connections are open; those without a token are closed first.",
}
MOST_CONNECTIONS = 512  # sockets among them
MOST_WITHOUT_TOKEN = 128
MOST_WITHOUT_TOKEN_PER_ADDRESS = 64
_numbers = itertools.count()


class HangUpOnUnread:
    """When an answer begins before the whole body was read, the connection ends with it."""

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
    """A part of both protocols of the server: HTTP, and the WebSocket that it may become."""

    scope: Any = None  # of the last request; the guard notes there how it was authenticated
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
        return bool(self.scope and self.scope.get(SCOPE_KEY))

    def refuse(self) -> None:
        """Ends the connection at once, whatever is still to be sent."""
        self.transport.abort()


class LimitedWebSocket(LimitedConnection, WebSocketsSansIOProtocol):
    pass


def connection_to_refuse(connections: Iterable[LimitedConnection]) -> LimitedConnection | None:
    """The one that must go now that there is a new one among them; None while there is room."""
    present = [one for one in connections if not one.transport.is_closing()]
    without_token = sorted((one for one in present if not one.has_token), key=lambda one: one.number)
    if not without_token:
        return None
    address, count = Counter(one.address for one in without_token).most_common(1)[0]
    if count > MOST_WITHOUT_TOKEN_PER_ADDRESS or len(without_token) > MOST_WITHOUT_TOKEN:
        return next(one for one in without_token if one.address == address)
    return without_token[0] if len(present) > MOST_CONNECTIONS else None


class PatientProtocol(LimitedConnection, H11Protocol):
    header_seconds = HEADER_SECONDS
    header_timer: asyncio.TimerHandle | None = None
    has_lines = False  # whether at least the request line has arrived whole

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()
        refused = connection_to_refuse(one for one in self.connections if isinstance(one, LimitedConnection))
        if refused is not None:
            refused.refuse()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """h11 is idle while headers are incomplete; the timer of the first byte goes on until they are whole."""
        self.has_lines = b"\n" in data or (self.has_lines and self.conn.their_state is h11.IDLE)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self.header_timer is None and self.timeout_keep_alive_task is None:
            self._await_headers()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def handle_events(self) -> None:
        """The same as uvicorn's, but the status tells what was wrong."""
        try:
            super().handle_events()
        except UnicodeDecodeError:  # bytes in the address that uvicorn does not expect
            self.send_error(400)

    def refuse(self) -> None:
        """Whoever has sent no whole request is told why; a response under way is cut off."""
        if self.conn.our_state is h11.IDLE:
            self.send_error(503)
        else:
            super().refuse()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's own words
        """h11 has put itself into its error state; only how far it came tells an address from headers."""
        waiting = len(self.conn.trailing_data[0]) if self.conn.their_state is h11.ERROR else 0
        too_long = waiting > HEADER_BYTES
        self.send_error((431 if self.has_lines else 414) if too_long else 400)

    def send_error(self, status: int) -> None:
        if self.transport.is_closing() or self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.close()
            return
        body = encode(error_data(MESSAGES[status]))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(b"connection", b"close")]
        start = h11.Response(status_code=status, headers=with_security(headers), reason=STATUS_PHRASES[status])
        for event in (start, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _await_headers(self) -> None:
        self.header_timer = self.loop.call_later(self.header_seconds, self._lose_patience)

    def _stop_waiting(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None

    def _lose_patience(self) -> None:
        self.header_timer = None
        self.send_error(408)
