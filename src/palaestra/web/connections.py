"""How many may be connected at once. Without a token few may, and the oldest of them makes room for the newest.

A client sends its token with its first request, a few milliseconds after it connects. Whoever holds connections open
without one loses them as soon as others need the room; connections with a token are never closed for this.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from palaestra.web.security import SCOPE_KEY

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

MOST_CONNECTIONS = 512  # sockets among them
MOST_WITHOUT_TOKEN = 128
MOST_WITHOUT_TOKEN_PER_ADDRESS = 64

_numbers = itertools.count()


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
