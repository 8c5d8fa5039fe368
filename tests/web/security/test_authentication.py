"""Who gets in: foreign pages, foreign names, missing and wrong tokens, sockets of strangers."""

import asyncio
import logging
from dataclasses import replace

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from palaestra.web.app import build_app
from palaestra.web.security.authentication import (
    CREDENTIAL_KEY,
    NO_TOKEN,
    TOO_BUSY,
    WRONG_ORIGIN,
    AuthenticationMiddleware,
)
from palaestra.web.security.login import cookie_name, login_link
from palaestra.web.security.origin import ServerAddress
from palaestra.web.security.tokens import cookie_value, new_token

OURS = "http://127.0.0.1:7878"
SOCKET = "ws://127.0.0.1:7878/api/events"
FOREIGN = [
    "null",
    "https://evil.example",
    "http://127.0.0.1:7879",
    "https://127.0.0.1:7878",
    "http://localhost:7878",  # ours by another name: exact means exact
    "http://127.0.0.1:78780",
    "http://127.0.0.1.evil.example:7878",
    "http://evil.example:7878",
    "http://127.0.0.1",
    "chrome-extension://abcdefghijklmnop",
]
UNREADABLE = ["", "x", "http://", "http://127.0.0.1:7878/", "http://127.0.0.1:7878,http://evil.example", "http://a b"]


@pytest.fixture
def browser(context, anonymous):
    """Signed in by cookie."""
    anonymous.get(login_link(context.address.url, context.codes))
    assert cookie_name(7878) in anonymous.cookies
    return anonymous


@pytest.mark.fault("W2")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_page_is_refused_even_with_the_token(client, method, origin):
    reply = client.request(method, "/api/runs", headers={"origin": origin})
    assert reply.status_code == 403
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.fault("W9")
@pytest.mark.parametrize(
    "target",
    [
        "/api/kinds/cleanrl/form?script=.%00./token",
        "/api/runs?search=%00",
        "/api/runs?sea%00rch=x",
        "/api/runs/a%00b",
        "/api/runs/a%00b/log",
        "/login%00",
        "/%00",
    ],
)
def test_a_nul_character_in_a_url_is_400(client, target):
    response = client.get(target)
    assert response.status_code == 400
    assert "NUL" in response.json()["error"]["message"]


@pytest.mark.fault("W9")
def test_a_nul_character_in_a_socket_url_is_400(client):
    with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect("/api/events?boot=%00"):
        pass
    assert denied.value.status_code == 400


@pytest.mark.fault("W3")
@pytest.mark.parametrize("origin", UNREADABLE)
def test_a_malformed_origin_is_400(client, origin):
    assert client.get("/api/system", headers={"origin": origin}).status_code == 400


@pytest.mark.fault("W3")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example:7878", 421),
        ("127.0.0.1", 421),
        ("localhost.:7878", 421),
        ("[::ffff:7f00:1]:7878", 421),
        ("169.254.169.254", 421),
        ("a b", 400),
        ("", 400),
        ("[::1", 400),
        ("127.0.0.1:7878@evil.example", 400),
        ("localhost:7878", 200),
        ("[::1]:7878", 200),
    ],
)
def test_only_allowed_hosts_are_served(client, host, status):
    assert client.get("/api/system", headers={"host": host}).status_code == status
    assert client.get("/", headers={"host": host}).status_code == status  # the page too


def test_a_wildcard_bind_allows_the_connected_address_but_no_name(context):
    location = ServerAddress("0.0.0.0", 7878)
    app = build_app(replace(context, address=location))
    with TestClient(app, base_url="http://10.1.2.3:7878", headers=bearer(context)) as client:
        assert client.get("/api/system").status_code == 200  # the test client says that it connected there
        assert client.get("/api/system", headers={"host": "10.1.2.4:7878"}).status_code == 421
        assert client.get("/api/system", headers={"host": "evil.example:7878"}).status_code == 421
        assert client.get("/api/system", headers={"origin": "http://10.1.2.3:7878"}).status_code == 200


def bearer(context):
    return {"authorization": f"Bearer {context.token.read()}"}


@pytest.mark.parametrize("doubled", ["host", "origin"])
def test_duplicate_host_and_origin_headers_are_refused(client, doubled):
    value = {"host": "127.0.0.1:7878", "origin": OURS}[doubled]
    reply = client.get("/api/system", headers=[(doubled, value), (doubled, value)])
    assert reply.status_code == 400


@pytest.mark.fault("W1")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer {other}",
        "Bearer {cookie}",
    ],
)
def test_a_wrong_token_is_401(context, anonymous, value):
    token = context.token.read()
    header = value.format(token=token, other=new_token(), cookie=cookie_value(token))
    reply = anonymous.get("/api/system", headers={"authorization": header})
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_right_token_is_accepted(context, anonymous, scheme):
    assert (
        anonymous.get("/api/system", headers={"authorization": f"{scheme} {context.token.read()}"}).status_code == 200
    )


def test_a_token_in_the_url_is_ignored(context, anonymous):
    assert anonymous.get(f"/api/system?token={context.token.read()}").status_code == 401


@pytest.mark.fault("W2")
def test_a_cookie_reads_without_an_origin_and_writes_only_with_the_allowed_one(browser):
    assert browser.get("/api/system").status_code == 200
    assert browser.post("/api/requests/parse", json={"yaml": "a: 1"}).status_code == 403
    assert browser.post("/api/requests/parse", json={"yaml": "a: 1"}, headers={"origin": OURS}).status_code == 200
    assert browser.delete("/api/runs/x").status_code == 403


def test_cookies_of_other_programs_do_not_hide_ours(context, anonymous):
    value = cookie_value(context.token.read())
    cookies = f'strange={{"a": 1}}; =; x; palaestra_7878={value}; "=b'
    assert anonymous.get("/api/system", headers={"cookie": cookies}).status_code == 200
    assert anonymous.get("/api/system", headers={"cookie": f"palaestra_7879={value}"}).status_code == 401


@pytest.mark.fault("W1")
def test_a_renewed_token_invalidates_the_old_one(context, browser, client):
    assert browser.get("/api/system").status_code == 200
    context.token.renew()
    assert browser.get("/api/system").status_code == 401  # neither by cookie nor by header


@pytest.mark.fault("W2")
def test_a_form_of_a_foreign_page_cannot_write(client):
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""):
        reply = client.post("/api/runs", content=b'{"recipe": "cartpole"}', headers={"content-type": kind})
        assert reply.status_code == 415
    assert client.get("/api/runs").json()["total"] == 0


def test_a_too_long_url_is_refused_first(anonymous):
    longest = "/" + "a" * 8191
    assert anonymous.get(longest).status_code == 401
    assert anonymous.get(f"{longest}a", headers={"host": "evil.example"}).status_code == 414
    assert anonymous.get(f"{longest}?b").status_code == 414, "the query counts"


@pytest.mark.fault("W4")
def test_a_socket_without_a_token_is_closed_with_4401(anonymous):
    with anonymous.websocket_connect(SOCKET) as socket, pytest.raises(WebSocketDisconnect) as closed:
        socket.receive_text()
    assert closed.value.code == 4401


@pytest.mark.fault("W4")
@pytest.mark.parametrize("origin", FOREIGN)
def test_a_socket_of_a_foreign_page_is_closed_with_4403(client, origin):
    with (
        client.websocket_connect(SOCKET, headers={"origin": origin}) as socket,
        pytest.raises(WebSocketDisconnect) as closed,
    ):
        socket.receive_text()
    assert closed.value.code == 4403


def test_a_cookie_opens_a_socket_only_with_the_allowed_origin(browser):
    with browser.websocket_connect(SOCKET) as socket, pytest.raises(WebSocketDisconnect) as closed:
        socket.receive_text()
    assert closed.value.code == 4403
    with browser.websocket_connect(SOCKET, headers={"origin": OURS}) as socket:
        assert socket.receive_json()["type"] == "hello"


def test_an_open_socket_is_closed_when_the_token_is_renewed(context, client):
    with client.websocket_connect(SOCKET) as socket:
        assert socket.receive_json()["type"] == "hello"
        context.token.renew()
        with pytest.raises(WebSocketDisconnect) as closed:
            for _ in range(10):
                context.daemon.events.publish("removed", "nobody", None)
                socket.receive_text()
        assert closed.value.code == 4401


@pytest.mark.fault("W11")
def test_a_refused_request_is_logged_on_one_line_without_the_query(anonymous, caplog):
    caplog.set_level(logging.INFO)
    anonymous.get("/api/%0aINFO%20forged%1b[31m%e2%80%aex?code=secret")
    (line,) = [
        record.getMessage() for record in caplog.records if record.name == "palaestra.web.security.authentication"
    ]
    assert line == r"refused 401: GET /api/\nINFO forged\x1b[31m\u202ex"


def test_a_refused_socket_is_logged_as_a_websocket(anonymous, caplog):
    with anonymous.websocket_connect(SOCKET) as socket, pytest.raises(WebSocketDisconnect):
        socket.receive_text()
    reported = [
        record.getMessage() for record in caplog.records if record.name == "palaestra.web.security.authentication"
    ]
    assert reported == ["refused 401: WEBSOCKET /api/events"]


def test_the_token_and_codes_are_in_no_log_line(context, client, anonymous, caplog):
    caplog.set_level(logging.DEBUG)
    secrets = [context.token.read(), cookie_value(context.token.read())]
    for _ in range(2):
        link = login_link(context.address.url, context.codes)
        secrets.append(link.partition("code=")[2])
        anonymous.get(link)
        anonymous.get(link)
    client.post("/api/login", json={"token": secrets[0]})
    client.post("/api/login", json={"token": secrets[0] + "x"})
    client.get(f"/api/system?token={secrets[0]}")
    client.get("/api/nowhere")
    assert caplog.records
    reported = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(("http", "asyncio"))
    )
    assert [secret for secret in secrets if secret in reported] == []


class Inner:
    """What stands behind the middleware: notes what was let in, and says one thing to it."""

    def __init__(self, says=None):
        self.let_in, self.says = [], says

    async def __call__(self, scope, receive, send):
        self.let_in.append(scope[CREDENTIAL_KEY])
        if self.says:
            await send(self.says)


def ask(context, inner, address=None, kind="http", host="127.0.0.1:7878", server=("127.0.0.1", 7878), **headers):
    """What the middleware itself sends and how often it listens; without anything of starlette around it."""
    sent, received = [], []
    given = [(b"host", host.encode()), *((name.encode(), value.encode()) for name, value in headers.items())]
    scope = {"type": kind, "path": "/api/x", "query_string": b"", "headers": given, "server": server}
    scope |= {"method": "GET"} if kind == "http" else {}

    async def receive():
        received.append(1)
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    middleware = AuthenticationMiddleware(
        inner, context.token, address or context.address, lambda method, path: "public" in headers
    )
    asyncio.run(middleware(scope, receive, send))
    return sent, len(received)


def test_the_credential_is_stored_in_the_scope(context):
    inner, token = Inner(), context.token.read()
    ask(context, inner, authorization=f"Bearer {token}")
    ask(context, inner, cookie=f"{cookie_name(7878)}={cookie_value(token)}")
    ask(context, inner, public="yes")
    assert inner.let_in == ["token", "cookie", ""]


def test_a_refused_socket_is_opened_and_closed_with_the_reason(context):
    sent, received = ask(context, Inner(), kind="websocket")
    closed = {"type": "websocket.close", "code": 4401, "reason": "A token is required."}
    assert (sent, received) == ([{"type": "websocket.accept"}, closed], 1)


def test_the_next_message_after_a_renewed_token_closes_the_socket(context):
    token = context.token.read()

    class Renewing(Inner):
        async def __call__(self, scope, receive, send):
            await send({"type": "websocket.send", "text": "before"})
            context.token.renew()
            with pytest.raises(ConnectionAbortedError):
                await send({"type": "websocket.send", "text": "after"})

    sent, _ = ask(context, Renewing(), kind="websocket", authorization=f"Bearer {token}")
    closed = {"type": "websocket.close", "code": 4401, "reason": "the token was renewed"}
    assert sent == [{"type": "websocket.send", "text": "before"}, closed]


def test_a_socket_closed_by_the_server_counts_as_disconnected(context):
    middleware = AuthenticationMiddleware(None, context.token, context.address, lambda _method, _path: True)

    async def closed_already(_message):
        raise RuntimeError("Unexpected ASGI message 'websocket.send', after sending 'websocket.close'.")

    headers = [(b"authorization", f"Bearer {context.token.read()}".encode())]
    send = middleware._check_token_on_send({"headers": headers}, closed_already)
    with pytest.raises(ConnectionAbortedError):
        asyncio.run(send({"type": "websocket.send", "text": "late"}))


@pytest.mark.parametrize(
    ("bound", "server", "host", "comes_in"),
    [
        ("0.0.0.0", ("10.0.0.5", 7878), "10.0.0.5:7878", True),
        ("::", ("fe80::1", 7878), "[fe80::1]:7878", True),
        ("::", ("fe80::1", 7878), "[fe80::2]:7878", False),
        ("0.0.0.0", None, "10.0.0.5:7878", False),
        ("127.0.0.1", ("10.0.0.5", 7878), "10.0.0.5:7878", False),
    ],
)
def test_the_connected_address_is_allowed_only_for_a_wildcard_bind(context, bound, server, host, comes_in):
    inner, bearer = Inner(), f"Bearer {context.token.read()}"
    sent, _ = ask(context, inner, ServerAddress(bound, 7878), host=host, server=server, authorization=bearer)
    assert (inner.let_in, [message["status"] for message in sent if "status" in message]) == (
        (["token"], []) if comes_in else ([], [421])
    )


def test_the_close_codes_are_those_of_the_page():
    assert (NO_TOKEN, WRONG_ORIGIN, TOO_BUSY) == (4401, 4403, 1013)
