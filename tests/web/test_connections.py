"""Floods of connections without a token over real sockets: whoever has one is served all the time."""

import contextlib
import socket
import time

import httpx2
import pytest
from websockets.sync.client import connect

from palaestra.web import connections
from palaestra.web.connections import (
    MOST_CONNECTIONS,
    MOST_WITHOUT_TOKEN,
    MOST_WITHOUT_TOKEN_PER_ADDRESS,
    LimitedConnection,
    connection_to_refuse,
)
from palaestra.web.patience import PatientProtocol

FLOOD = 600
TIMEOUT_SECONDS = 60.0  # far beyond what anything here takes, also on a busy machine
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


def status(response):
    assert response.startswith(b"HTTP/1.1 "), response[:80]
    return int(response.split()[1])


def is_served(live):
    return status(live.raw(live.head())) == 200


@pytest.mark.fault("W6")
@pytest.mark.parametrize("content", [b"", HALF_A_REQUEST])
def test_600_open_connections_without_a_token_turn_nobody_away(live, flood, content, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 1000.0)  # nothing is freed by waiting
    for _ in range(6):
        flood(content, count=FLOOD // 6)
        assert is_served(live)
    assert [is_served(live) for _ in range(10)] == [True] * 10


@pytest.mark.fault("W6")
def test_connections_with_a_token_live_through_a_flood(live, flood, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 1000.0)
    with (
        httpx2.Client(base_url=live.url, headers=live.bearer, timeout=TIMEOUT_SECONDS) as client,
        connect(f"ws://127.0.0.1:{live.port}/api/events", additional_headers=live.bearer, proxy=None) as events,
    ):
        assert client.get("/api/system").status_code == 200
        kept = client.stream("GET", "/api/system")
        with kept as response:
            flood(HALF_A_REQUEST)
            assert response.read()
        assert events.ping().wait(TIMEOUT_SECONDS)
        assert events.recv(timeout=TIMEOUT_SECONDS)


@pytest.mark.fault("W6")
def test_a_flood_from_one_address_closes_only_its_own_connections(live, flood, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 1000.0)  # the other one must not be too slow
    (other,) = flood(HALF_A_REQUEST, source="127.0.0.3", count=1)
    flooding = flood(source="127.0.0.2")
    assert status(flooding[0].recv(1000)) == 503  # the oldest of its own
    other.sendall(b"connection: close\r\n\r\n")
    assert status(other.recv(1000)) == 421  # heard to its end: `x` is no name of ours


@pytest.mark.fault("W6")
def test_beyond_so_many_connections_with_a_token_there_is_a_503_and_room_again_when_they_leave(live, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
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


def test_the_oldest_without_a_token_goes_first_and_of_the_address_that_has_most():
    one, other = made(MOST_WITHOUT_TOKEN_PER_ADDRESS), made(MOST_WITHOUT_TOKEN_PER_ADDRESS, "10.0.0.2")
    assert connection_to_refuse([*one, *other]) is None
    (newest,) = made(1, "10.0.0.2")
    assert connection_to_refuse({*one, *other, newest}) is other[0]
    (from_elsewhere,) = made(1, "10.0.0.3")
    assert connection_to_refuse([*one[1:], *other, from_elsewhere]) is None
    assert len([*one, *other]) == MOST_WITHOUT_TOKEN
    assert connection_to_refuse([*one, *other, from_elsewhere]) is one[0]


def test_when_connections_with_a_token_fill_the_limit_the_newest_is_refused():
    trusted, (newcomer,) = made(MOST_CONNECTIONS, token=True), made(1)
    assert connection_to_refuse([*trusted, newcomer]) is newcomer
    assert connection_to_refuse([*trusted[1:], newcomer]) is None
    assert connection_to_refuse(trusted) is None
