"""Login and logout of a browser: by a one-time link, or by the token."""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, TypedDict

from starlette.responses import HTMLResponse, RedirectResponse, Response

from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Body, Query
from palaestra.web.responses import HttpError
from palaestra.web.security.tokens import cookie_value

if TYPE_CHECKING:
    from collections.abc import Callable

CODE_BYTES = 32
CODE_SECONDS = 600.0
MAX_CODES = 32  # the oldest is dropped
COOKIE_SECONDS = 30 * 24 * 3600
USED_LINK_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Palaestra</title></head>
<body><h1>This link no longer works</h1>
<p>A link signs one browser in, once, within ten minutes. Ask for another one: <code>palaestra token --link</code></p>
</body></html>
"""


class LoginCodes:
    """One-time login codes, in memory: a restart invalidates them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._until: dict[str, float] = {}  # oldest first

    def make(self) -> str:
        code = secrets.token_urlsafe(CODE_BYTES)
        with self._guard:
            self._until[code] = self._clock() + CODE_SECONDS
            for oldest in list(self._until)[:-MAX_CODES]:
                del self._until[oldest]
        return code

    def use(self, code: str) -> bool:
        """Returns True once for each code. The dictionary lookup leaks no timing: codes have 256 random bits."""
        with self._guard:
            until = self._until.pop(code, None)
        return until is not None and self._clock() < until


def cookie_name(port: int) -> str:
    """Cookies ignore ports: the name keeps two daemons on one machine apart."""
    return f"palaestra_{port}"


class LoginQuery(Query):
    code: str = ""


class LoginBody(Body):
    token: str


def follow_link(call: Call) -> Response:
    if call.request.method == "HEAD" or not call.context.codes.use(call.query.code):
        return HTMLResponse(USED_LINK_PAGE, 401)
    return _with_cookie(call, RedirectResponse("/", 303))


def sign_in(call: Call) -> Response:
    if not call.context.token.is_token(call.body.token):
        raise HttpError(401, "The token is wrong.", "See 'palaestra token'.")
    return _with_cookie(call, Response(status_code=204))


def sign_out(call: Call) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(cookie_name(call.context.address.port), path="/", httponly=True, samesite="strict")
    return response


class LoginLink(TypedDict):
    link: str


def make_link(call: Call) -> LoginLink:
    """For `palaestra token --link` and `--open`."""
    return {"link": login_link(call.context.address.url, call.context.codes)}


def login_link(url: str, codes: LoginCodes) -> str:
    return f"{url}/login?code={codes.make()}"


def _with_cookie(call: Call, response: Response) -> Response:
    address = call.context.address
    response.set_cookie(
        cookie_name(address.port),
        cookie_value(call.context.token.read()),
        max_age=COOKIE_SECONDS,
        path="/",
        secure=address.is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


ROUTES = (
    Endpoint(
        "GET", "/login", follow_link, "sign a browser in by a one-time link", LoginQuery, status=303, media="text/html"
    ),
    Endpoint("POST", "/api/login", sign_in, "sign a browser in by the token", body=LoginBody, status=204),
    Endpoint("POST", "/api/logout", sign_out, "sign this browser out", status=204),
    Endpoint("POST", "/api/login/link", make_link, "another one-time link", response=LoginLink),
)
