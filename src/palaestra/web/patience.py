"""uvicorn's HTTP protocol with an end to its patience: slow, endless and unreadable requests get an answer and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from palaestra.web.answers import encode
from palaestra.web.connections import LimitedConnection, connection_to_refuse
from palaestra.web.errors import error_data
from palaestra.web.headers import with_security

if TYPE_CHECKING:
    import asyncio

HEADER_SECONDS = 10.0  # from the first byte of a request (or the connection) to the end of its headers
HEADER_BYTES = 32 * 1024  # of the request line and all headers together
MESSAGES = {
    400: "This is not an HTTP request that can be read.",
    408: "The request came too slowly.",
    414: "The address is too long.",
    431: "The headers are too long.",
    503: "Too many connections are open; those without a token are closed first.",
}


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
