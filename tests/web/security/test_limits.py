"""Bodies: too large, endless, slow, unread. A caller gets its answer and the connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import time

import httpx2
import psutil
import pytest
from websockets.sync.client import connect

from palaestra.web import request_parsing
from palaestra.web.security import limits
from palaestra.web.security.limits import (
    HEADER_BYTES,
    MAX_CONNECTIONS,
    MAX_WITHOUT_TOKEN,
    MAX_WITHOUT_TOKEN_PER_ADDRESS,
    CloseOnUnreadBody,
    LimitedConnection,
    TimeoutHttpProtocol,
    connection_to_close,
)

MEBIBYTE = 1 << 20
TIMEOUT_SECONDS = 60.0  # far beyond what anything here takes, also on a busy machine


def status(reply):
    assert reply.startswith(b"HTTP/1.1 "), reply[:80]
    return int(reply.split()[1])


def post(live, path="/api/runs", **headers):
    return live.head("POST", path, content_type="application/json", **headers)


@pytest.mark.fault("W7")
def test_an_announced_gigabyte_is_413_at_once(live):
    reply = live.raw(post(live, content_length=1 << 30, connection="keep-alive"))
    assert status(reply) == 413
    assert b"connection: close" in reply.lower()


def test_a_body_at_the_limit_is_read_and_one_byte_more_is_413(live):
    text = b'{"config": {"x": "%s"}}'
    filler = MEBIBYTE - len(text % b"")
    within = text % (b"a" * filler)
    assert status(live.raw(post(live, "/api/requests/check", content_length=len(within)) + within)) == 200
    beyond = text % (b"a" * (filler + 1))
    assert status(live.raw(post(live, "/api/requests/check", content_length=len(beyond)) + beyond)) == 413


@pytest.mark.fault("W7")
def test_an_endless_chunked_body_is_cut_off_without_being_stored(live):
    before = psutil.Process().memory_info().rss
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", live.port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(post(live, transfer_encoding="chunked", connection="keep-alive"))
        sent = 0
        try:
            while sent < 256 * MEBIBYTE:
                connection.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
        assert sent < 64 * MEBIBYTE
    assert psutil.Process().memory_info().rss - before < 50 * MEBIBYTE


@pytest.mark.parametrize("path", ["/api/runs", "/api/nowhere"])
def test_an_endless_body_without_a_token_is_not_read(live, path):
    request = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{live.port}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    reply = live.raw(request + b"5\r\nhello\r\n")  # the end of the body never comes
    assert status(reply) == 401
    assert b"connection: close" in reply.lower()


def test_an_unknown_path_with_an_unfinished_body_is_404_and_closed(live):
    reply = live.raw(post(live, "/api/nowhere", content_length=100, connection="keep-alive") + b"{")
    assert status(reply) == 404


@pytest.mark.fault("W7")
def test_a_slow_body_is_408(live, monkeypatch):
    monkeypatch.setattr(request_parsing, "BODY_SECONDS", 0.3)
    reply = live.raw(post(live, content_length=100, connection="keep-alive") + b"{")
    assert status(reply) == 408


def test_a_complete_body_keeps_the_connection_open(live):
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=TIMEOUT_SECONDS)
    used = set()
    for _ in range(2):
        headers = {**live.bearer, "content-type": "application/json"}
        connection.request("POST", "/api/requests/parse", b'{"yaml": "a: 1"}', headers)
        used.add(connection.sock.getsockname())
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, b'{"config":{"a":1}}')
    connection.close()
    assert len(used) == 1


def replied(announced, messages=(), reads=0, reported=(), kind="http"):
    """The headers of an answer that begins after so many messages were read, with nothing of a server around it."""
    coming, sent = iter(messages), []

    async def app(scope, receive, send):
        for _ in range(reads):
            await receive()
        await send({"type": "http.response.start", "status": 200, **({"headers": list(reported)} if reported else {})})
        await send({"type": "http.response.body", "body": b"x"})

    async def receive():
        return next(coming)

    async def send(message):
        sent.append(message)

    asyncio.run(CloseOnUnreadBody(app)({"type": kind, "headers": list(announced)}, receive, send))
    assert sent[1] == {"type": "http.response.body", "body": b"x"}
    return sent[0].get("headers", [])


CLOSE = (b"connection", b"close")
LONG = [(b"content-length", b"5")]
FIRST, LAST = {"type": "http.request", "more_body": True}, {"type": "http.request", "more_body": False}
BARE = {"type": "http.request"}


@pytest.mark.parametrize(
    ("announced", "messages", "reads", "hangs_up"),
    [
        ([], [], 0, False),
        ([(b"content-length", b"0")], [], 0, False),
        (LONG, [FIRST], 0, True),
        (LONG, [FIRST], 1, True),
        (LONG, [FIRST, LAST], 2, False),
        (LONG, [BARE], 1, False),
        (LONG, [LAST, FIRST], 2, False),
        ([(b"transfer-encoding", b"chunked")], [FIRST], 1, True),
        ([(b"transfer-encoding", b"chunked")], [LAST], 1, False),
    ],
)
def test_a_response_before_the_end_of_the_body_closes_the_connection(announced, messages, reads, hangs_up):
    assert replied(announced, messages, reads) == ([CLOSE] if hangs_up else [])


def test_only_the_connection_header_of_a_response_is_replaced():
    reported = [(b"Connection", b"keep-alive"), (b"x", b"connection")]
    assert replied(LONG, [FIRST], 1, reported) == [(b"x", b"connection"), CLOSE]
    assert replied(LONG, [LAST], 1, reported) == reported


def test_other_scopes_than_http_are_passed_through():
    assert replied(LONG, [FIRST], 1, kind="websocket") == []


def is_alive(live):
    return httpx2.get(f"{live.url}/api/system", headers=live.bearer, timeout=TIMEOUT_SECONDS).status_code == 200


MALFORMED = [
    b"\r\n\r\nnonsense\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\nhost: x\r\nconnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",  # no host
    b"GET / HTTP/1.1\r\nhost x\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: x\r\n folded: y\r\nconnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\n\x00: y\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, gzip\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # somebody speaks TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.fault("W3")
@pytest.mark.parametrize("content", MALFORMED)
def test_a_malformed_request_is_400_and_affects_no_other_client(live, content, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(TimeoutHttpProtocol, "header_seconds", 0.5)
        reply = live.raw(content)
    assert status(reply) in {400, 408, 421}
    assert b"content-security-policy" in reply
    assert is_alive(live)


@pytest.mark.fault("W3")
def test_an_absolute_url_does_not_change_the_host(live):
    request = live.head(path="http://evil.example/api/system")
    assert status(live.raw(request)) in {400, 404}
    request = live.head(path="/api/system", host="evil.example")
    assert status(live.raw(request)) == 421


@pytest.mark.fault("W7")
def test_an_endless_url_is_414_and_endless_headers_are_431(live):
    assert status(live.raw(b"GET /" + b"a" * (1 << 20))) == 414
    many = b"".join(b"x-%d: y\r\n" % number for number in range(100_000))
    assert status(live.raw(b"GET / HTTP/1.1\r\nhost: x\r\n" + many)) == 431
    assert status(live.raw(b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"y" * (1 << 20))) == 431
    assert is_alive(live)


def test_headers_within_the_limit_are_read(live):
    assert status(live.raw(live.head(padding="y" * (HEADER_BYTES // 2)))) == 200


@pytest.mark.fault("W7")
def test_slow_headers_are_408(live, monkeypatch):
    monkeypatch.setattr(TimeoutHttpProtocol, "header_seconds", 0.4)
    with socket.create_connection(("127.0.0.1", live.port)) as connection:
        connection.settimeout(0.1)
        reply = b""
        for byte in live.head()[:-4] + b"x" * 1000:  # it would take minutes, and it never ends
            try:
                connection.sendall(bytes([byte]))
                reply = connection.recv(1000)
                break
            except TimeoutError:
                continue
            except OSError:
                break
        assert status(reply) == 408


def test_a_silent_connection_and_a_slow_second_request_are_closed(live, monkeypatch):
    with socket.create_connection(("127.0.0.1", live.port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(live.head(connection="keep-alive"))
        assert status(connection.recv(65536)) == 200
        monkeypatch.setattr(TimeoutHttpProtocol, "header_seconds", 0.3)  # not before: the first must be in time
        assert status(live.raw(b"")) == 408
        connection.sendall(b"GET /api")
        reply = b""
        while piece := connection.recv(65536):
            reply += piece
        assert status(reply[reply.index(b"HTTP/1.1") :]) == 408


def test_a_persistent_connection_serves_many_requests(live):
    with httpx2.Client(base_url=live.url, headers=live.bearer, timeout=TIMEOUT_SECONDS) as client:
        assert [client.get("/api/system").status_code for _ in range(5)] == [200] * 5


FLOOD = 600
HALF_A_REQUEST = b"GET /api/system HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture
def flood(live):
    """`flood(content, source)`: 600 connections that send so much and then nothing, from a loopback address."""
    with contextlib.ExitStack() as stack:

        def open_all(content=b"", source="127.0.0.1", count=FLOOD):
            opened = []
            for _ in range(count):
                one = socket.create_connection(("127.0.0.1", live.port), TIMEOUT_SECONDS, source_address=(source, 0))
                opened.append(stack.enter_context(one))
                one.sendall(content)
            return opened

        yield open_all


def is_served(live):
    return status(live.raw(live.head())) == 200


@pytest.mark.fault("W6")
@pytest.mark.parametrize("content", [b"", HALF_A_REQUEST])
def test_600_open_connections_without_a_token_block_no_client(live, flood, content, monkeypatch):
    monkeypatch.setattr(TimeoutHttpProtocol, "header_seconds", 1000.0)  # nothing is freed by waiting
    for _ in range(6):
        flood(content, count=FLOOD // 6)
        assert is_served(live)
    assert [is_served(live) for _ in range(10)] == [True] * 10


@pytest.mark.fault("W6")
def test_connections_with_a_token_survive_a_flood(live, flood, monkeypatch):
    monkeypatch.setattr(TimeoutHttpProtocol, "header_seconds", 1000.0)
    with (
        httpx2.Client(base_url=live.url, headers=live.bearer, timeout=TIMEOUT_SECONDS) as client,
        connect(f"ws://127.0.0.1:{live.port}/api/events", additional_headers=live.bearer, proxy=None) as events,
    ):
        assert client.get("/api/system").status_code == 200
        stored = client.stream("GET", "/api/system")
        with stored as response:
            flood(HALF_A_REQUEST)
            assert response.read()
        assert events.ping().wait(TIMEOUT_SECONDS)
        assert events.recv(timeout=TIMEOUT_SECONDS)


@pytest.mark.fault("W6")
def test_a_flood_from_one_address_closes_only_its_own_connections(live, flood, monkeypatch):
    monkeypatch.setattr(TimeoutHttpProtocol, "header_seconds", 1000.0)  # the other one must not be too slow
    (other,) = flood(HALF_A_REQUEST, source="127.0.0.3", count=1)
    flooding = flood(source="127.0.0.2")
    assert status(flooding[0].recv(1000)) == 503  # the oldest of its own
    other.sendall(b"connection: close\r\n\r\n")
    assert status(other.recv(1000)) == 421  # heard to its end: `x` is no name of ours


@pytest.mark.fault("W6")
def test_too_many_connections_with_a_token_are_503_until_some_close(live, monkeypatch):
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    idle = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(3)]
    for connection in idle:  # answered: each of them has been counted
        connection.sendall(live.head(connection="keep-alive"))
        assert status(connection.recv(65536)) == 200
    response = live.raw(b"")
    assert status(response) == 503
    assert b"content-security-policy" in response
    for connection in idle:
        connection.close()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_served(live):
        assert time.monotonic() < deadline


class Transport:
    def is_closing(self):
        return False


def made(count, address="10.0.0.1", *, token=False):
    found = []
    for _ in range(count):
        one = LimitedConnection()
        one.client, one.transport = (address, 1), Transport()
        one.scope = {"palaestra.credential": "token"} if token else None
        found.append(one)
    return found


def test_the_oldest_connection_without_a_token_of_the_busiest_address_is_closed():
    one, other = made(MAX_WITHOUT_TOKEN_PER_ADDRESS), made(MAX_WITHOUT_TOKEN_PER_ADDRESS, "10.0.0.2")
    assert connection_to_close([*one, *other]) is None
    (newest,) = made(1, "10.0.0.2")
    assert connection_to_close({*one, *other, newest}) is other[0]
    (from_elsewhere,) = made(1, "10.0.0.3")
    assert connection_to_close([*one[1:], *other, from_elsewhere]) is None
    assert len([*one, *other]) == MAX_WITHOUT_TOKEN
    assert connection_to_close([*one, *other, from_elsewhere]) is one[0]


def test_when_connections_with_a_token_reach_the_limit_the_newest_is_closed():
    trusted, (newcomer,) = made(MAX_CONNECTIONS, token=True), made(1)
    assert connection_to_close([*trusted, newcomer]) is newcomer
    assert connection_to_close([*trusted[1:], newcomer]) is None
    assert connection_to_close(trusted) is None
