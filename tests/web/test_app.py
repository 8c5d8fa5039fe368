"""The skeleton: what is declared is reachable, what is not declared is refused."""

from __future__ import annotations

import pytest
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from palaestra.web.app import build_inner_app, is_public

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")


def addresses(house):
    """Every path of the live table, holes filled with a plain word."""
    paths = [route.path for route in build_inner_app(house).routes if isinstance(route, Route)]
    return [path.replace("{name:path}", "x.js").replace("{", "").replace("}", "") for path in paths]


@pytest.mark.fault("W1")
def test_without_a_token_every_route_refuses_every_method(house, stranger, figure):
    asked = [(method, path) for path in addresses(house) for method in METHODS]
    answers = {pair: stranger.request(*pair).status_code for pair in asked if not is_public(*pair)}
    assert len(answers) > 30
    figure("routes x methods", len(answers))
    assert {pair: status for pair, status in answers.items() if status != 401} == {}


def test_what_is_public_is_the_page_and_signing_in():
    public = {(method, path) for method in METHODS for path in ("/", "/login", "/api/login", "/api/runs", "/assets/x")}
    assert {pair for pair in public if is_public(*pair)} == {
        *((method, path) for method in ("GET", "HEAD") for path in ("/", "/login", "/assets/x")),
        ("POST", "/api/login"),
    }


@pytest.mark.fault("W1")
def test_without_a_token_every_socket_is_closed(house, stranger):
    paths = [route.path for route in build_inner_app(house).routes if isinstance(route, WebSocketRoute)]
    for path in [*(path.replace("{", "").replace("}", "") for path in paths), "/api/nowhere"]:
        with (
            stranger.websocket_connect(f"ws://127.0.0.1:7878{path}") as socket,
            pytest.raises(WebSocketDisconnect) as closed,
        ):
            socket.receive_text()
        assert closed.value.code == 4401


def test_a_path_that_is_not_declared_is_401_for_strangers_and_404_for_us(client, stranger):
    assert client.get("/api/nowhere").status_code == 404
    del stranger.headers["authorization"]
    assert stranger.get("/api/nowhere").status_code == 401
