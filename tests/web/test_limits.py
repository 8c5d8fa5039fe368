"""Bodies: too large, endless, slow, unread. A caller gets its answer and the connection ends."""

import asyncio
import http.client
import socket

import psutil
import pytest

from palaestra.web import reading
from palaestra.web.limits import HangUpOnUnread

MEBIBYTE = 1 << 20
TIMEOUT_SECONDS = 60.0  # far beyond what anything here takes, also on a busy machine


def status(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer[:80]
    return int(answer.split()[1])


def post(live, path="/api/runs", **headers):
    return live.head("POST", path, content_type="application/json", **headers)


@pytest.mark.fault("W7")
def test_a_gigabyte_that_is_only_announced_is_413_at_once(live):
    answer = live.raw(post(live, content_length=1 << 30, connection="keep-alive"))
    assert status(answer) == 413
    assert b"connection: close" in answer.lower()


def test_a_body_just_within_the_limit_is_read_and_one_byte_more_is_not(live):
    text = b'{"config": {"x": "%s"}}'
    filler = MEBIBYTE - len(text % b"")
    within = text % (b"a" * filler)
    assert status(live.raw(post(live, "/api/requests/check", content_length=len(within)) + within)) == 200
    beyond = text % (b"a" * (filler + 1))
    assert status(live.raw(post(live, "/api/requests/check", content_length=len(beyond)) + beyond)) == 413


@pytest.mark.fault("W7")
def test_an_endless_body_in_chunks_is_cut_off_without_being_kept(live):
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
def test_a_stranger_s_endless_body_is_not_listened_to(live, path):
    request = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{live.port}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    answer = live.raw(request + b"5\r\nhello\r\n")  # the end of the body never comes
    assert status(answer) == 401
    assert b"connection: close" in answer.lower()


def test_an_unknown_path_with_an_unfinished_body_is_answered_and_closed(live):
    answer = live.raw(post(live, "/api/nowhere", content_length=100, connection="keep-alive") + b"{")
    assert status(answer) == 404


@pytest.mark.fault("W7")
def test_a_slow_body_is_408(live, monkeypatch):
    monkeypatch.setattr(reading, "BODY_SECONDS", 0.3)
    answer = live.raw(post(live, content_length=100, connection="keep-alive") + b"{")
    assert status(answer) == 408


def test_a_whole_body_keeps_the_connection(live):
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=TIMEOUT_SECONDS)
    used = set()
    for _ in range(2):
        headers = {**live.bearer, "content-type": "application/json"}
        connection.request("POST", "/api/requests/parse", b'{"yaml": "a: 1"}', headers)
        used.add(connection.sock.getsockname())
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"config":{"a":1}}')
    connection.close()
    assert len(used) == 1


def answered(announced, messages=(), reads=0, said=(), kind="http"):
    """The headers of an answer that begins after so many messages were read, with nothing of a server around it."""
    coming, sent = iter(messages), []

    async def app(scope, receive, send):
        for _ in range(reads):
            await receive()
        await send({"type": "http.response.start", "status": 200, **({"headers": list(said)} if said else {})})
        await send({"type": "http.response.body", "body": b"x"})

    async def receive():
        return next(coming)

    async def send(message):
        sent.append(message)

    asyncio.run(HangUpOnUnread(app)({"type": kind, "headers": list(announced)}, receive, send))
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
def test_the_connection_ends_with_an_answer_that_came_before_the_whole_body(announced, messages, reads, hangs_up):
    assert answered(announced, messages, reads) == ([CLOSE] if hangs_up else [])


def test_what_an_answer_says_of_its_connection_is_replaced_and_nothing_else():
    said = [(b"Connection", b"keep-alive"), (b"x", b"connection")]
    assert answered(LONG, [FIRST], 1, said) == [(b"x", b"connection"), CLOSE]
    assert answered(LONG, [LAST], 1, said) == said


def test_what_is_no_request_is_let_through():
    assert answered(LONG, [FIRST], 1, kind="websocket") == []
