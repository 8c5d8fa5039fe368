"""Slow, endless and unreadable requests over real sockets: an answer, then the door; the daemon lives on."""

import socket

import httpx2
import pytest

from palaestra.web.patience import HEADER_BYTES, PatientProtocol

TIMEOUT_SECONDS = 60.0  # far beyond what anything here takes, also on a busy machine


def status(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer[:80]
    return int(answer.split()[1])


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
def test_what_cannot_be_read_is_answered_with_400_and_harms_nobody(live, content, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(PatientProtocol, "header_seconds", 0.5)
        answer = live.raw(content)
    assert status(answer) in {400, 408, 421}
    assert b"content-security-policy" in answer
    assert is_alive(live)


@pytest.mark.fault("W3")
def test_an_absolute_address_does_not_change_the_host(live):
    request = live.head(path="http://evil.example/api/system")
    assert status(live.raw(request)) in {400, 404}
    request = live.head(path="/api/system", host="evil.example")
    assert status(live.raw(request)) == 421


@pytest.mark.fault("W7")
def test_an_endless_address_is_414_and_endless_headers_are_431(live):
    assert status(live.raw(b"GET /" + b"a" * (1 << 20))) == 414
    many = b"".join(b"x-%d: y\r\n" % number for number in range(100_000))
    assert status(live.raw(b"GET / HTTP/1.1\r\nhost: x\r\n" + many)) == 431
    assert status(live.raw(b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"y" * (1 << 20))) == 431
    assert is_alive(live)


def test_headers_within_the_limit_are_read(live):
    assert status(live.raw(live.head(padding="y" * (HEADER_BYTES // 2)))) == 200


@pytest.mark.fault("W7")
def test_who_drips_headers_is_cut_off_with_408(live, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 0.4)
    with socket.create_connection(("127.0.0.1", live.port)) as connection:
        connection.settimeout(0.1)
        answer = b""
        for byte in live.head()[:-4] + b"x" * 1000:  # it would take minutes, and it never ends
            try:
                connection.sendall(bytes([byte]))
                answer = connection.recv(1000)
                break
            except TimeoutError:
                continue
            except OSError:
                break
        assert status(answer) == 408


def test_who_says_nothing_is_cut_off_and_so_is_a_slow_second_request(live, monkeypatch):
    with socket.create_connection(("127.0.0.1", live.port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(live.head(connection="keep-alive"))
        assert status(connection.recv(65536)) == 200
        monkeypatch.setattr(PatientProtocol, "header_seconds", 0.3)  # not before: the first must be in time
        assert status(live.raw(b"")) == 408
        connection.sendall(b"GET /api")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        assert status(answer[answer.index(b"HTTP/1.1") :]) == 408


def test_a_kept_connection_serves_many_requests(live):
    with httpx2.Client(base_url=live.url, headers=live.bearer, timeout=TIMEOUT_SECONDS) as client:
        assert [client.get("/api/system").status_code for _ in range(5)] == [200] * 5
