from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.testclient import TestClient

from palaestra.client.daemon_address import token_file
from palaestra.core.errors import NotFound
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore
from palaestra.web import app as app_module
from palaestra.web import dispatch
from palaestra.web.app import build_app
from palaestra.web.dispatch import (
    CLIENT_LEFT,
    NICENESS,
    LowPriorityPool,
    build_routes,
    is_page,
    load_files,
    lower_thread_priority,
)
from palaestra.web.endpoints import Endpoint, Socket
from palaestra.web.security.headers import PAGE_POLICY


@pytest.fixture
def built(tmp_path, context, monkeypatch):
    folder = tmp_path / "static"
    (folder / "assets" / "fonts").mkdir(parents=True)
    (folder / "index.html").write_text("<title>page</title>")
    (folder / "favicon.svg").write_text("<svg/>")
    (folder / "assets" / "app-1234.js").write_text("run()")
    (folder / "assets" / "fonts" / "a.woff2").write_bytes(b"font")
    (folder / "assets" / "link.js").symlink_to("/etc/passwd")
    (folder / "secret.txt").write_text("secret")
    files = load_files(folder)
    monkeypatch.setattr(app_module, "load_files", lambda: files)
    with TestClient(build_app(context), base_url=context.address.url) as client:
        yield client


def test_the_page_and_its_files_need_no_token(built):
    assert built.get("/").text == "<title>page</title>"
    assert built.get("/").headers["content-security-policy"] == PAGE_POLICY
    assert built.get("/favicon.svg").headers["content-type"] == "image/svg+xml"
    script = built.get("/assets/app-1234.js")
    assert (script.text, script.headers["content-type"]) == ("run()", "text/javascript; charset=utf-8")
    assert "immutable" in script.headers["cache-control"]
    assert built.get("/assets/fonts/a.woff2").content == b"font"


def test_a_known_version_of_the_page_is_304(built):
    etag = built.get("/").headers["etag"]
    assert built.get("/", headers={"if-none-match": etag}).status_code == 304
    assert built.get("/", headers={"if-none-match": '"x"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/assets/link.js",
        "/assets/",
        "/assets/nothing.js",
        "/assets/../secret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets/..%2fsecret.txt",
        "/assets//etc/passwd",
        "/assets/fonts",
        "/assets/app-1234.js%00",
    ],
)
def test_only_files_present_at_startup_are_served(built, path):
    assert built.get(path).status_code in {400, 401, 404}


def test_files_beside_the_page_are_not_public(built):
    assert built.get("/secret.txt").status_code == 401


def test_without_a_build_the_page_says_how_to_build_it(context, monkeypatch):
    monkeypatch.setattr(app_module, "load_files", dict)
    with TestClient(build_app(context), base_url=context.address.url) as client:
        reply = client.get("/")
        assert (reply.status_code, "make ui" in reply.text) == (200, True)
        assert str(context.daemon.root) not in reply.text
        assert context.token.read() not in reply.text
        assert client.get("/assets/x.js").status_code == 404


def test_nothing_is_loaded_without_a_build(tmp_path):
    assert load_files(tmp_path) == {}


def test_only_static_paths_are_pages():
    assert [is_page(path) for path in ("/", "/favicon.svg", "/assets/x")] == [True] * 3
    assert [is_page(path) for path in ("/assets", "/api/runs", "/index.html", "//", "/login")] == [False] * 5


def raises(call):
    raise NotFound("nobody", "try another")


async def on_loop(call):
    return {"thread": threading.current_thread().name}


def in_thread(call):
    return {"thread": threading.current_thread().name}


async def greet(context, websocket):
    await websocket.accept()
    await websocket.send_text(f"{context} {websocket.path_params['id']}")
    await websocket.close()


ROUTES = (
    Endpoint("GET", "/thing/{id}", lambda call: {"id": call.path["id"]}, "x"),
    Endpoint("POST", "/thing/{id}", lambda call: {"made": call.context}, "x", status=201),
    Endpoint("DELETE", "/thing/{id}", lambda call: None, "x", status=204),
    Endpoint("GET", "/thing/best", lambda call: "the best", "x"),
    Endpoint("GET", "/none", raises, "x"),
    Endpoint("GET", "/loop", on_loop, "x"),
    Endpoint("GET", "/thread", in_thread, "x"),
    Endpoint("GET", "/text", lambda call: PlainTextResponse("as it is"), "x"),
    Socket("/thing/{id}/watch", greet, "x"),
)


@pytest.fixture
def small():
    with TestClient(Starlette(routes=build_routes(ROUTES, "the house"))) as client:
        yield client


def test_methods_of_one_path_are_dispatched(small):
    json_type = {"content-type": "application/json"}
    assert small.get("/thing/a").json() == {"id": "a"}
    assert (small.post("/thing/a", headers=json_type).status_code, small.delete("/thing/a").content) == (201, b"")
    assert small.head("/thing/a").status_code == 200


def test_an_unknown_method_is_405_with_the_allowed_ones(small):
    reply = small.put("/thing/a")
    assert (reply.status_code, reply.headers["allow"]) == (405, "DELETE, GET, HEAD, POST")


def test_a_fixed_path_takes_precedence_over_a_parameter(small):
    assert small.get("/thing/best").json() == "the best"


def test_palaestra_errors_become_responses(small):
    reply = small.get("/none")
    assert (reply.status_code, reply.json()["error"]["hint"]) == (404, "try another")


def test_functions_run_in_a_thread_and_coroutines_on_the_event_loop(small):
    assert small.get("/loop").json() != small.get("/thread").json()


def test_a_response_is_sent_unchanged(small):
    assert small.get("/text").text == "as it is"


def test_a_socket_handler_gets_the_app_context(small):
    with small.websocket_connect("/thing/x/watch") as socket:
        assert socket.receive_text() == "the house x"


def test_a_parameter_contains_no_slash(small):
    assert small.get("/thing/a%2Fb").status_code == 404


def test_declaring_a_method_twice_is_an_error():
    with pytest.raises(ValueError, match="declared twice"):
        build_routes([ROUTES[0], ROUTES[0]], None)


class Asking:
    """A request of somebody who may have left."""

    def __init__(self, has_left=False):
        self.has_left = has_left

    async def is_disconnected(self):
        return self.has_left


def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_threads_of_the_pool_have_low_priority():
    before = niceness()
    reply = asyncio.run(LowPriorityPool().run(Asking(), lambda: Response(str(niceness()))))
    assert int(reply.body) == min(before + NICENESS, 19)
    assert niceness() == before


def test_the_pool_has_lower_priority_than_a_low_priority_daemon():
    """In a thread, whose priority nobody else has and which cannot be taken back."""
    found = []

    def play():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
        found.append(int(asyncio.run(LowPriorityPool().run(Asking(), lambda: Response(str(niceness())))).body))

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert found == [19]


def test_an_error_in_the_pool_is_raised_in_the_request():
    def refuse():
        raise NotFound("No such curve.")

    with pytest.raises(NotFound, match="No such curve"):
        asyncio.run(LowPriorityPool().run(Asking(), refuse))


@pytest.mark.parametrize(("cores", "max_threads"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_the_pool_uses_half_of_the_cores(monkeypatch, cores, max_threads):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert LowPriorityPool().max_threads == max_threads


def test_a_call_of_a_disconnected_client_is_skipped(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    done = []

    async def play():
        pool, patient, gone = LowPriorityPool(), Asking(), Asking()
        is_working, may_end = threading.Event(), threading.Event()

        def first():
            is_working.set()
            assert may_end.wait(60)
            return Response()

        busy = asyncio.create_task(pool.run(patient, first))
        await asyncio.to_thread(is_working.wait)
        waiting = asyncio.create_task(pool.run(gone, lambda: done.append(1) or Response()))
        await asyncio.sleep(0)  # it has taken its place in the queue
        gone.has_left = True
        may_end.set()
        return (await busy).status_code, (await waiting).status_code

    assert asyncio.run(play()) == (200, CLIENT_LEFT)
    assert done == []


def test_without_thread_priorities_nothing_changes(monkeypatch):
    class Elsewhere:
        sysname = "Darwin"

    before = niceness()
    monkeypatch.setattr(dispatch.os, "uname", Elsewhere)
    lower_thread_priority()
    assert niceness() == before


# A daemon whose curves never come to an end; it says in a file when it has begun with one.
SLOW_DAEMON = """
import os, pathlib, sys, threading
from palaestra.cli.main import main
from palaestra.runs.metrics.curve_cache import CurveCache

def never(*_):
    pathlib.Path(os.environ["BEGUN"]).touch()
    threading.Event().wait()

CurveCache.chart = CurveCache.newest = never
sys.exit(main())
"""


@contextmanager
def slow_daemon(folder, begun):
    environment = {**os.environ, "PALAESTRA_RUNS_DIR": str(folder), "BEGUN": str(begun)}
    arguments = [sys.executable, "-c", SLOW_DAEMON, "serve", "--port", "0", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        try:
            text = b""
            while not text.rstrip().endswith(b"}"):
                piece = process.stdout.read1(4096)
                assert piece, process.stderr.read().decode()
                text += piece
            yield process, urlsplit(json.loads(text)["url"])
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/metrics?run=first&name=a", "/api/runs/first/metrics"])
def test_a_daemon_that_leaves_does_not_wait_for_a_slow_chart(tmp_path, path):
    folder, begun = tmp_path / "runs", tmp_path / "begun"
    RunStore(folder).create(RunRequest("native", "cartpole", {}, "first"), {"seed": 1})
    with slow_daemon(folder, begun) as (process, url):
        token = token_file(folder).read_text().strip()
        with closing(socket.create_connection((url.hostname, url.port))) as caller:
            head = (f"GET {path} HTTP/1.1", f"Host: {url.netloc}", f"Authorization: Bearer {token}", "", "")
            caller.sendall("\r\n".join(head).encode())
            deadline = time.monotonic() + 60
            while not begun.exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            process.wait(20)  # a second for answers under way, and then it is gone
        assert process.returncode == 0
