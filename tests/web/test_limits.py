"""Bodies: too large, endless, slow, unread. A caller gets its answer and the connection ends."""

import http.client
import socket
import time

import psutil
import pytest

from palaestra.web import reading

MEBIBYTE = 1 << 20


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
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as connection:
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
    began = time.monotonic()
    answer = live.raw(post(live, content_length=100, connection="keep-alive") + b"{")
    assert status(answer) == 408
    assert time.monotonic() - began < 3


def test_a_whole_body_keeps_the_connection(live):
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=5)
    used = set()
    for _ in range(2):
        headers = {**live.bearer, "content-type": "application/json"}
        connection.request("POST", "/api/requests/parse", b'{"yaml": "a: 1"}', headers)
        used.add(connection.sock.getsockname())
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"config":{"a":1}}')
    connection.close()
    assert len(used) == 1
