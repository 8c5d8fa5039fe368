"""Signing a browser in: by a link that works once, or by the token; and out again."""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, TypedDict

from starlette.responses import HTMLResponse, RedirectResponse, Response

from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Body, Query
from palaestra.web.responses import Refusal
from palaestra.web.security.tokens import cookie_value

if TYPE_CHECKING:
    from collections.abc import Callable

CODE_BYTES = 32
CODE_SECONDS = 600.0
MOST_CODES = 32  # the oldest goes when there are more
COOKIE_SECONDS = 30 * 24 * 3600
USED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Palaestra</title></head>
<body><h1>This link no longer works</h1>
<p>A link signs one browser in, once, within ten minutes. Ask for another one: <code>palaestra token --link</code></p>
</body></html>
"""


class LoginCodes:
    """In memory only: a restart ends them all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._until: dict[str, float] = {}  # in order of making

    def make(self) -> str:
        code = secrets.token_urlsafe(CODE_BYTES)
        with self._guard:
            self._until[code] = self._clock() + CODE_SECONDS
            for oldest in list(self._until)[:-MOST_CODES]:
                del self._until[oldest]
        return code

    def use(self, code: str) -> bool:
        """True once. Looking it up in a table of 256-bit keys tells a guesser nothing."""
        with self._guard:
            until = self._until.pop(code, None)
        return until is not None and self._clock() < until


def cookie_name(port: int) -> str:
    """Cookies do not know ports: two daemons on one machine must not sign each other's browsers out."""
    return f"palaestra_{port}"


class LoginQuery(Query):
    code: str = ""


class LoginBody(Body):
    token: str


def follow_link(call: Call) -> Response:
    if call.request.method == "HEAD" or not call.house.codes.use(call.query.code):
        return HTMLResponse(USED, 401)
    return _signed_in(call, RedirectResponse("/", 303))


def sign_in(call: Call) -> Response:
    if not call.house.token.is_token(call.body.token):
        raise Refusal(401, "This is not the token.", "See 'palaestra token'.")
    return _signed_in(call, Response(status_code=204))


def sign_out(call: Call) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(cookie_name(call.house.place.port), path="/", httponly=True, samesite="strict")
    return response


class LoginLink(TypedDict):
    link: str


def make_link(call: Call) -> LoginLink:
    """For `palaestra token --link` and `--open`."""
    return {"link": login_link(call.house.place.url, call.house.codes)}


def login_link(url: str, codes: LoginCodes) -> str:
    return f"{url}/login?code={codes.make()}"


def _signed_in(call: Call, response: Response) -> Response:
    place = call.house.place
    response.set_cookie(
        cookie_name(place.port),
        cookie_value(call.house.token.read()),
        max_age=COOKIE_SECONDS,
        path="/",
        secure=place.is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


ROUTES = (
    Endpoint(
        "GET", "/login", follow_link, "sign a browser in by a one-time link", LoginQuery, status=303, media="text/html"
    ),
    Endpoint("POST", "/api/login", sign_in, "sign a browser in by the token", body=LoginBody, status=204),
    Endpoint("POST", "/api/logout", sign_out, "forget this browser", status=204),
    Endpoint("POST", "/api/login/link", make_link, "another one-time link", response=LoginLink),
)
