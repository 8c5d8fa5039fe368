from __future__ import annotations

import asyncio
import re
import socket
import threading

import psutil
import pytest
from starlette.requests import ClientDisconnect, Request

from palaestra.core.clock import SystemClock
from palaestra.core.errors import NotFound
from palaestra.core.metrics_logger import Sample
from palaestra.loggers.tensorboard import TensorBoardLogger
from palaestra.web.responses import HttpError
from palaestra.web.tensorboard import endpoints
from palaestra.web.tensorboard.endpoints import SERVICE, TensorBoardService, forward_request, restrict_policy


def children():
    found = psutil.Process().children(recursive=True)
    return [process for process in found if "palaestra.web.tensorboard.child" in command_of(process)]


def command_of(process):
    """Nothing for one that has just ended: workers of other tests are children too."""
    try:
        return process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return []


def write_curve(directory, value=0.0):
    logger = TensorBoardLogger(directory.tensorboard, {}, SystemClock())
    for step in range(5):
        logger.write(Sample(step, {"charts/episodic_return": step + value}, at=1000.0 + step))
    logger.close()


@pytest.mark.slow
def test_only_a_signed_in_browser_opens_tensorboard(client, make_run, context):
    write_curve(make_run("first"))
    make_run("second")
    path = client.post("/api/tensorboard", json={"runs": ["first", "first"]}).json()["path"]
    page = client.get(path)
    assert page.status_code == 200
    assert "<!doctype html>" in page.text
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy
    assert "http" not in policy
    assert page.headers["x-frame-options"] == "SAMEORIGIN"
    assert "set-cookie" not in page.headers
    assert client.get(f"{path}data/runs").json() == ["first"]
    query = {"run": "first", "tag": "charts/episodic_return"}
    curve = client.get(f"{path}data/plugin/scalars/scalars", params=query).json()
    assert [(step, value) for _, step, value in curve] == [(step, float(step)) for step in range(5)]
    form = {"tag": "charts/episodic_return", "runs": "first"}
    many = client.post(
        f"{path}data/plugin/scalars/scalars_multirun", files={name: (None, value) for name, value in form.items()}
    )
    assert len(many.json()["first"]) == 5
    assert client.get("/tensorboard/another-key/").status_code == 404
    del client.headers["authorization"]
    assert client.get(path).status_code == 401
    assert client.post("/api/tensorboard", json={"runs": ["first"]}).status_code == 401


@pytest.mark.slow
def test_the_same_runs_share_a_process_and_other_runs_replace_it(client, make_run, context):
    write_curve(make_run("first"))
    write_curve(make_run("second"))
    first = client.post("/api/tensorboard", json={"runs": ["first"]}).json()["path"]
    (process,) = children()
    assert client.post("/api/tensorboard", json={"runs": ["first"]}).json()["path"] == first
    assert children() == [process]
    second = client.post("/api/tensorboard", json={"runs": ["first", "second"]}).json()["path"]
    assert second != first
    assert client.get(first).status_code == 404
    assert not process.is_running()
    assert sorted(client.get(f"{second}data/runs").json()) == ["first", "second"]
    (process,) = children()
    desk = context.services[SERVICE]
    desk._idle_seconds = -1.0
    client.portal.call(desk.end_if_idle)
    assert not process.is_running()
    assert client.get(second).status_code == 404
    assert children() == []
    assert list((context.daemon.root / ".palaestra" / "tensorboard").iterdir()) == []


@pytest.mark.slow
def test_tensorboard_ends_with_the_daemon(client, make_run, context):
    write_curve(make_run("first"))
    client.post("/api/tensorboard", json={"runs": ["first"]})
    (process,) = children()
    client.portal.call(context.services[SERVICE].close)
    assert not process.is_running()


@pytest.mark.parametrize("runs", [None, [], ["first"] * 101, "first", [1]])
def test_what_cannot_be_requested_is_refused(client, make_run, runs):
    make_run("first")
    assert client.post("/api/tensorboard", json={"runs": runs}).status_code == 422
    assert client.post("/api/tensorboard", json={}).status_code == 422


def test_an_unknown_run_is_not_found_and_nothing_starts(client, make_run):
    make_run("first")
    assert client.post("/api/tensorboard", json={"runs": ["first", "nobody"]}).status_code == 404
    assert children() == []


@pytest.mark.parametrize("rest", ["", "x/", "%2e%2e/x", "x/../../etc/passwd", "é/"])
def test_without_tensorboard_its_paths_are_404(client, rest):
    assert client.get(f"/tensorboard/{rest}").status_code == 404


def test_a_failed_start_is_reported_and_leaves_nothing(tmp_path, make_run, monkeypatch):
    class Fake:
        def __init__(self, *_):
            raise NotFound("no such thing")

    monkeypatch.setattr(endpoints, "start_tensorboard", Fake)
    desk = TensorBoardService(tmp_path)
    with pytest.raises(NotFound):
        asyncio.run(desk.open([("first", make_run("first"))]))
    assert desk.board is None
    with pytest.raises(NotFound, match="has ended"):
        desk.find("")


class Board:
    """Says one thing to whoever connects, and remembers what it was told."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self.heard = b""

    def connect(self):
        ours, theirs = socket.socketpair()

        def serve():
            with theirs:
                self.heard = _whole_request(theirs)
                theirs.sendall(self._answer)

        threading.Thread(target=serve).start()
        return ours


def _whole_request(connection: socket.socket) -> bytes:
    """Head and body may come in pieces."""
    heard = b""
    while not _is_whole(heard) and (piece := connection.recv(65536)):
        heard += piece
    return heard


def _is_whole(request: bytes) -> bool:
    head, blank, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(blank) and len(body) >= int(length[1] if length else 0)


class NoBoard:
    def connect(self):
        raise ConnectionRefusedError("nobody listens")


def a_request(path="/tensorboard/KEY/data/runs", query=b"", method="GET", **headers):
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": raw,
        }
    )


async def body_of(answer, breaks=False):
    pieces = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        pieces.append(message.get("body", b""))
        if breaks:
            raise OSError("the caller has gone")

    await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
    return b"".join(pieces)


def test_path_query_and_few_headers_are_forwarded_without_secrets():
    board = Board(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi")
    request = a_request(
        "/tensorboard/KEY/a%2Fb",
        b"tag=a%20b",
        accept="*/*",
        cookie="palaestra=secret",
        authorization="Bearer secret",
        host="evil.example",
        x_forwarded_for="1.2.3.4",
    )
    answer = forward_request(board, request, b"")
    assert asyncio.run(body_of(answer)) == b"hi"
    head = board.heard.decode().lower()
    assert head.startswith("get /tensorboard/key/a%2fb?tag=a%20b http/1.1")
    assert "secret" not in head
    assert "evil" not in head
    assert "1.2.3.4" not in head
    assert "accept: */*" in head


def test_responses_are_returned_without_cookies_and_with_a_strict_policy():
    board = Board(
        b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\n"
        b"Location: https://evil.example/\r\nX-Odd: 1\r\n"
        b"Content-Security-Policy: default-src 'self' https://evil.example; frame-ancestors *\r\n\r\n<html>"
    )
    answer = forward_request(board, a_request(), b"")
    headers = {name.decode() for name, _ in answer.raw_headers}
    assert headers == {"content-type", "content-security-policy", "x-frame-options"}
    assert answer.headers["content-security-policy"].startswith("default-src 'self'; frame-ancestors 'self'")
    asyncio.run(body_of(answer))


def test_a_response_without_a_policy_gets_the_strictest_one():
    answer = forward_request(Board(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<script>"), a_request(), b"")
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'self'"
    asyncio.run(body_of(answer))


def test_a_body_is_forwarded():
    board = Board(b"HTTP/1.0 200 OK\r\n\r\n")
    answer = forward_request(board, a_request(method="POST", content_type="application/json"), b'{"a": 1}')
    asyncio.run(body_of(answer))
    assert board.heard.endswith(b'{"a": 1}')


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"HTTP/1.0 200 OK\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_an_invalid_response_is_502(answer):
    with pytest.raises(HttpError) as refused:
        forward_request(Board(answer), a_request(), b"")
    assert refused.value.status == 502


def test_an_unreachable_tensorboard_is_502():
    with pytest.raises(HttpError) as refused:
        forward_request(NoBoard(), a_request(), b"")
    assert refused.value.status == 502


def test_a_huge_header_is_not_returned():
    answer = forward_request(Board(b"HTTP/1.0 200 OK\r\nETag: " + b"x" * 5000 + b"\r\n\r\n"), a_request(), b"")
    assert "etag" not in answer.headers
    asyncio.run(body_of(answer))


def test_the_connection_is_closed_when_the_client_disconnects():
    answer = forward_request(Board(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1000), a_request(), b"")
    with pytest.raises(ClientDisconnect):
        asyncio.run(body_of(answer, breaks=True))
    assert answer._connection.sock is None
    assert answer._source.isclosed()


def test_a_policy_loses_foreign_hosts_and_keeps_the_rest():
    policy = "script-src 'self' 'unsafe-eval' https://a.example; style-src https://b.example; img-src data: blob: *"
    assert restrict_policy(policy) == (
        "script-src 'self' 'unsafe-eval'; style-src 'none'; img-src data: blob:; frame-ancestors 'self'; "
        "base-uri 'self'; form-action 'none'; object-src 'none'"
    )
    assert restrict_policy("") == restrict_policy(";;")
