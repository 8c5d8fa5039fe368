"""The token check: ASGI middleware in front of all routing that refuses every request it does not recognize.

It checks, in this order: length of the URL (414), NUL in it (400), Host (421; malformed 400), Origin (403; malformed
400), token or cookie (401), and the exact Origin of a cookie that changes something (403). A WebSocket is closed with
4401 or 4403 instead, because a page cannot read the status. Only requests that `is_public` accepts need no token.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from palaestra.core.errors import escape_controls
from palaestra.web.endpoints import MUTATIONS
from palaestra.web.responses import HttpError, error_response
from palaestra.web.security.login import cookie_name
from palaestra.web.security.origin import is_well_formed_origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from palaestra.web.security.origin import ServerAddress
    from palaestra.web.security.tokens import TokenFile

logger = logging.getLogger(__name__)

MAX_TARGET_BYTES = 8192  # path and query
NO_TOKEN, WRONG_ORIGIN, TOO_BUSY = 4401, 4403, 1013
BEARER = "bearer "
CREDENTIAL_KEY = "palaestra.credential"

Credential = Literal["token", "cookie", ""]


class AuthenticationMiddleware:
    def __init__(
        self, app: ASGIApp, token: TokenFile, address: ServerAddress, is_public: Callable[[str, str], bool]
    ) -> None:
        self.app = app
        self._token = token
        self._address = address
        self._is_public = is_public  # (method, path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            scope[CREDENTIAL_KEY] = self._authenticate(scope)
        except HttpError as refusal:
            _log_refusal(scope, refusal)
            await _refuse(refusal, scope, receive, send)
            return
        if scope["type"] == "websocket":
            send = self._check_token_on_send(scope, send)
        await self.app(scope, receive, send)

    def _authenticate(self, scope: Scope) -> Credential:
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET_BYTES:
            raise HttpError(414, f"The URL is longer than {MAX_TARGET_BYTES} bytes.", "Shorten the query.")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise HttpError(400, "The URL contains a NUL character (%00).", "Remove it.")
        self._check_host(scope)
        origin = self._check_origin(scope)
        method = "WEBSOCKET" if scope["type"] == "websocket" else scope["method"]
        credential = self._credential(scope)
        if not credential:
            if self._is_public(method, scope["path"]):
                return ""
            raise HttpError(
                401, "A token is required.", "See 'palaestra token'.", headers={"www-authenticate": "Bearer"}
            )
        if credential == "cookie" and method in {*MUTATIONS, "WEBSOCKET"} and not origin:
            raise HttpError(403, "A request with a cookie needs an Origin header.", f"Use {self._address.url}.")
        return credential

    def _check_host(self, scope: Scope) -> None:
        hosts = _values(scope, b"host")
        if len(hosts) != 1:
            raise HttpError(400, f"The request has {len(hosts)} Host headers (must be 1).")
        result = self._address.check_host(hosts[0])
        if result == "malformed":
            raise HttpError(400, "The Host header is malformed.", f"Use {self._address.url.partition('://')[2]}.")
        if result == "foreign" and not self._is_own_address(scope, hosts[0]):
            known = ", ".join(sorted(self._address.authorities))
            raise HttpError(
                421, "This host is not allowed.", f"Allowed: {known}. To allow another one: palaestra serve --name"
            )

    def _is_own_address(self, scope: Scope, host: str) -> bool:
        """Returns whether Host is the IP address of this connection; DNS rebinding cannot forge a numeric address."""
        if not self._address.is_wildcard or not scope.get("server"):
            return False
        address, port = scope["server"]
        return host == (f"[{address}]:{port}" if ":" in address else f"{address}:{port}")

    def _check_origin(self, scope: Scope) -> bool:
        """Returns whether there is an Origin header; it must be the address that the request was sent to."""
        origins = _values(scope, b"origin")
        if not origins:
            return False
        if len(origins) > 1:
            raise HttpError(400, f"The request has {len(origins)} Origin headers (at most 1).")
        if not is_well_formed_origin(origins[0]):
            raise HttpError(400, "The Origin header is malformed.", f"Use {self._address.url}.")
        if origins[0] != f"{self._address.scheme}://{_values(scope, b'host')[0].lower()}":
            raise HttpError(403, "This origin is not allowed.", f"Use the page at {self._address.url}.")
        return True

    def _credential(self, scope: Scope) -> Credential:
        for value in _values(scope, b"authorization"):
            if value[: len(BEARER)].lower() == BEARER and self._token.is_token(value[len(BEARER) :].strip()):
                return "token"
        name = cookie_name(self._address.port)
        if any(self._token.is_cookie(value) for value in _cookies(scope, name)):
            return "cookie"
        return ""

    def _check_token_on_send(self, scope: Scope, send: Send) -> Send:
        """Closes a socket at its next message when the token was renewed after it was opened."""

        async def send_checked(message: Message) -> None:
            if message["type"] == "websocket.send" and not self._credential(scope):
                await send({"type": "websocket.close", "code": NO_TOKEN, "reason": "the token was renewed"})
                raise ConnectionAbortedError("the token was renewed")  # becomes a WebSocketDisconnect
            try:
                await send(message)
            except RuntimeError as error:  # uvicorn closed it: a message was too long
                raise ConnectionAbortedError("the connection is closing") from error

        return send_checked


async def _refuse(error: HttpError, scope: Scope, receive: Receive, send: Send) -> None:
    codes = {401: NO_TOKEN, 403: WRONG_ORIGIN}
    if scope["type"] == "websocket" and error.status in codes:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": codes[error.status], "reason": error.message})
        return
    await error_response(error)(scope, receive, send)


def _log_refusal(scope: Scope, error: HttpError) -> None:
    """Logs method and path without the query, which may contain a login code."""
    method = scope.get("method", "WEBSOCKET")
    logger.warning("refused %s: %s %s", error.status, escape_controls(method), escape_controls(scope["path"])[:300])


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key.lower() == name]


def _cookies(scope: Scope, name: str) -> list[str]:
    """Parses cookies by hand: malformed cookies of other programs on this machine must not hide ours."""
    pairs = [pair.partition("=") for header in _values(scope, b"cookie") for pair in header.split(";")]
    return [value.strip() for key, _, value in pairs if key.strip() == name]
