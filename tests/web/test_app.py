"""The skeleton: what is declared is reachable, what is not declared is refused."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import pytest
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from palaestra.web import app as app_module
from palaestra.web.app import LIFESPANS, RESOURCES, all_routes, build_app, build_inner_app, is_public
from palaestra.web.endpoints import Endpoint

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")


def addresses(context):
    """Every path of the live table, holes filled with a plain word."""
    paths = [route.path for route in build_inner_app(context).routes if isinstance(route, Route)]
    return [path.replace("{name:path}", "x.js").replace("{", "").replace("}", "") for path in paths]


@pytest.mark.fault("W1")
def test_without_a_token_every_route_refuses_every_method(context, anonymous, figure):
    requested = [(method, path) for path in addresses(context) for method in METHODS]
    answers = {pair: anonymous.request(*pair).status_code for pair in requested if not is_public(*pair)}
    assert len(answers) > 30
    figure("routes x methods", len(answers))
    assert {pair: status for pair, status in answers.items() if status != 401} == {}


def test_only_the_page_and_login_are_public():
    public = {(method, path) for method in METHODS for path in ("/", "/login", "/api/login", "/api/runs", "/assets/x")}
    assert {pair for pair in public if is_public(*pair)} == {
        *((method, path) for method in ("GET", "HEAD") for path in ("/", "/login", "/assets/x")),
        ("POST", "/api/login"),
    }


@pytest.mark.fault("W1")
def test_without_a_token_every_socket_is_closed(context, anonymous):
    paths = [route.path for route in build_inner_app(context).routes if isinstance(route, WebSocketRoute)]
    for path in [*(path.replace("{", "").replace("}", "") for path in paths), "/api/nowhere"]:
        with (
            anonymous.websocket_connect(f"ws://127.0.0.1:7878{path}") as socket,
            pytest.raises(WebSocketDisconnect) as closed,
        ):
            socket.receive_text()
        assert closed.value.code == 4401


def test_an_undeclared_path_is_401_without_a_token_and_404_with_one(client, anonymous):
    assert client.get("/api/nowhere").status_code == 404
    del anonymous.headers["authorization"]
    assert anonymous.get("/api/nowhere").status_code == 401


def test_every_file_with_routes_is_in_the_list():
    folder = Path(app_module.__file__).parent
    paths = [path.relative_to(folder) for path in folder.rglob("*.py") if "\nROUTES" in path.read_text()]
    files = [".".join(path.with_suffix("").parts) for path in paths]
    assert len(files) > 15
    declared = [import_module(f"palaestra.web.{name}").ROUTES for name in files]
    assert [name for name, routes in zip(files, declared, strict=True) if routes not in RESOURCES] == []


def test_no_method_of_a_path_is_declared_twice():
    pairs = [(one.method, one.path) for one in all_routes() if isinstance(one, Endpoint)]
    assert len(pairs) == len(set(pairs)) > 20


def test_every_route_has_a_summary():
    assert [one.path for one in all_routes() if not one.summary] == []


def test_lifespans_end_in_reverse_order(context, monkeypatch):
    reports = []

    def named(name):
        @asynccontextmanager
        async def begin(found):
            assert found is context
            reports.append(f"{name} begins")
            yield
            reports.append(f"{name} ends")

        return begin

    monkeypatch.setattr(app_module, "LIFESPANS", (named("a"), named("b")))
    with TestClient(build_app(context)):
        assert reports == ["a begins", "b begins"]
    assert reports == ["a begins", "b begins", "b ends", "a ends"]


def test_every_lifespan_starts_with_an_app_context():
    assert LIFESPANS
    assert all(callable(begin) for begin in LIFESPANS)
