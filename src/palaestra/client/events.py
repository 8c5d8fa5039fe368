"""Reads the daemon's event socket."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from palaestra.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from websockets.sync.client import ClientConnection

    from palaestra.client.calls import Connection

MESSAGE_BYTES = 16 << 20
OPEN_SECONDS = 10.0
NO_TOKEN = 4401


def follow_events(
    connection: Connection, after: int | None = None, boot: str = "", seconds: float | None = None
) -> Iterator[dict[str, Any]]:
    """Yields events until the daemon ends, or until none arrived for `seconds`."""
    query = {} if after is None else {"after": after, "boot": boot}
    address = f"ws{connection.url.removeprefix('http')}/api/events?{urlencode(query)}"
    with ExitStack() as stack:
        try:
            socket = stack.enter_context(_open(connection, address))
        except (OSError, InvalidHandshake) as error:
            raise NotFound(
                f"Cannot follow the events of {connection.url}: {error}.", "Is the daemon running?"
            ) from error
        yield from _messages(socket, seconds)


def _open(connection: Connection, address: str) -> AbstractContextManager[ClientConnection]:
    return connect(
        address,
        ssl=connection.tls,
        additional_headers={"authorization": f"Bearer {connection.token}"},
        compression=None,
        max_size=MESSAGE_BYTES,
        open_timeout=OPEN_SECONDS,
        proxy=None,
    )


def _messages(socket: ClientConnection, seconds: float | None) -> Iterator[dict[str, Any]]:
    while True:
        try:
            yield json.loads(socket.recv(timeout=seconds))
        except TimeoutError:
            return
        except ConnectionClosed as closed:
            if closed.rcvd is not None and closed.rcvd.code == NO_TOKEN:
                raise UsageError("The daemon does not accept this token.", "See 'palaestra token'.") from closed
            return
