"""Who may come in: a plain ASGI layer in front of all routing, and what it does not know it refuses.

In this order: length of the address (414), NUL in it (400), Host (421; unreadable 400), Origin (403; unreadable 400),
token or cookie (401), and for a cookie that wants to change something its exact Origin (403). A WebSocket gets the
close codes 4401 and 4403 instead, because a page can read nothing else. Only what `is_public` names passes without
a token.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from palaestra.core.errors import escape_controls
from palaestra.web.endpoints import MUTATIONS
from palaestra.web.responses import Refusal, error_answer
from palaestra.web.security.login import cookie_name
from palaestra.web.security.origin import is_readable_origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from palaestra.web.security.origin import Place
    from palaestra.web.security.tokens import TokenFile

logger = logging.getLogger(__name__)

MAX_TARGET_BYTES = 8192  # path and query
NO_TOKEN, WRONG_ORIGIN, TOO_BUSY = 4401, 4403, 1013
BEARER = "bearer "
SCOPE_KEY = "palaestra.credential"

Credential = Literal["token", "cookie", ""]


class Guard:
    def __init__(self, app: ASGIApp, token: TokenFile, place: Place, is_public: Callable[[str, str], bool]) -> None:
        self.app = app
        self._token = token
        self._place = place
        self._is_public = is_public  # (method, path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            scope[SCOPE_KEY] = self._admit(scope)
        except Refusal as refusal:
            _log_refusal(scope, refusal)
            await _refuse(refusal, scope, receive, send)
            return
        if scope["type"] == "websocket":
            send = self._while_welcome(scope, send)
        await self.app(scope, receive, send)

    def _admit(self, scope: Scope) -> Credential:
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET_BYTES:
            raise Refusal(414, f"The address has more than {MAX_TARGET_BYTES} bytes.", "Send less.")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise Refusal(400, "The address contains a NUL character (%00).", "Leave it out.")
        self._check_host(scope)
        origin = self._check_origin(scope)
        method = "WEBSOCKET" if scope["type"] == "websocket" else scope["method"]
        credential = self._credential(scope)
        if not credential:
            if self._is_public(method, scope["path"]):
                return ""
            raise Refusal(401, "A token is required.", "See 'palaestra token'.", headers={"www-authenticate": "Bearer"})
        if credential == "cookie" and method in {*MUTATIONS, "WEBSOCKET"} and not origin:
            raise Refusal(403, "A signed-in browser must say its Origin.", f"It is {self._place.url}.")
        return credential

    def _check_host(self, scope: Scope) -> None:
        hosts = _values(scope, b"host")
        if len(hosts) != 1:
            raise Refusal(400, f"The request has {len(hosts)} Host headers.", "Send one.")
        verdict = self._place.judge_host(hosts[0])
        if verdict == "malformed":
            raise Refusal(400, "The Host header cannot be read.", f"It is {self._place.url.partition('://')[2]}.")
        if verdict == "foreign" and not self._is_own_address(scope, hosts[0]):
            known = ", ".join(sorted(self._place.authorities))
            raise Refusal(421, "This host is not allowed.", f"Allowed: {known}. Others by: palaestra serve --name")

    def _is_own_address(self, scope: Scope, host: str) -> bool:
        """Bound to all addresses, the number that the caller connected to is ours; no foreign page can rebind it."""
        if not self._place.is_wildcard or not scope.get("server"):
            return False
        address, port = scope["server"]
        return host == (f"[{address}]:{port}" if ":" in address else f"{address}:{port}")

    def _check_origin(self, scope: Scope) -> bool:
        """True when there is one, and it is the very address that this request came to."""
        origins = _values(scope, b"origin")
        if not origins:
            return False
        if len(origins) > 1:
            raise Refusal(400, f"The request has {len(origins)} Origin headers.", "Send one.")
        if not is_readable_origin(origins[0]):
            raise Refusal(400, "The Origin header cannot be read.", f"It is {self._place.url}.")
        if origins[0] != f"{self._place.scheme}://{_values(scope, b'host')[0].lower()}":
            raise Refusal(403, "This origin is not allowed.", f"Use the page at {self._place.url}.")
        return True

    def _credential(self, scope: Scope) -> Credential:
        for value in _values(scope, b"authorization"):
            if value[: len(BEARER)].lower() == BEARER and self._token.is_token(value[len(BEARER) :].strip()):
                return "token"
        name = cookie_name(self._place.port)
        if any(self._token.is_cookie(value) for value in _cookies(scope, name)):
            return "cookie"
        return ""

    def _while_welcome(self, scope: Scope, send: Send) -> Send:
        """A socket lives long: when the token is renewed, the next message it would get is the end."""

        async def send_checked(message: Message) -> None:
            if message["type"] == "websocket.send" and not self._credential(scope):
                await send({"type": "websocket.close", "code": NO_TOKEN, "reason": "the token was renewed"})
                raise ConnectionAbortedError("the token was renewed")  # starlette makes a WebSocketDisconnect of it
            try:
                await send(message)
            except RuntimeError as error:  # uvicorn has closed it by itself, for a message that is too long
                raise ConnectionAbortedError("the connection is closing") from error

        return send_checked


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    codes = {401: NO_TOKEN, 403: WRONG_ORIGIN}
    if scope["type"] == "websocket" and refusal.status in codes:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": codes[refusal.status], "reason": refusal.message})
        return
    await error_answer(refusal)(scope, receive, send)


def _log_refusal(scope: Scope, refusal: Refusal) -> None:
    """Without the query: a login code could stand there."""
    method = scope.get("method", "WEBSOCKET")
    logger.warning("refused %s: %s %s", refusal.status, escape_controls(method), escape_controls(scope["path"])[:300])


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key.lower() == name]


def _cookies(scope: Scope, name: str) -> list[str]:
    """Parsed by hand: what other programs of this machine put there must not hide ours."""
    pairs = [pair.partition("=") for header in _values(scope, b"cookie") for pair in header.split(";")]
    return [value.strip() for key, _, value in pairs if key.strip() == name]
