import threading

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from palaestra.core.errors import NotFound
from palaestra.web.dispatch import build_routes
from palaestra.web.route import Endpoint, Socket


def raises(call):
    raise NotFound("nobody", "try another")


async def on_loop(call):
    return {"thread": threading.current_thread().name}


def in_thread(call):
    return {"thread": threading.current_thread().name}


async def greet(house, websocket):
    await websocket.accept()
    await websocket.send_text(f"{house} {websocket.path_params['id']}")
    await websocket.close()


ROUTES = (
    Endpoint("GET", "/thing/{id}", lambda call: {"id": call.path["id"]}, "x"),
    Endpoint("POST", "/thing/{id}", lambda call: {"made": call.house}, "x", status=201),
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


def test_methods_of_one_path_are_told_apart(small):
    json_type = {"content-type": "application/json"}
    assert small.get("/thing/a").json() == {"id": "a"}
    assert (small.post("/thing/a", headers=json_type).status_code, small.delete("/thing/a").content) == (201, b"")
    assert small.head("/thing/a").status_code == 200


def test_another_method_is_405_and_says_which_there_are(small):
    answer = small.put("/thing/a")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, POST")


def test_a_fixed_path_goes_before_one_with_a_hole(small):
    assert small.get("/thing/best").json() == "the best"


def test_errors_of_the_house_become_answers(small):
    answer = small.get("/none")
    assert (answer.status_code, answer.json()["error"]["hint"]) == (404, "try another")


def test_plain_functions_run_in_a_thread_and_coroutines_on_the_loop(small):
    assert small.get("/loop").json() != small.get("/thread").json()


def test_a_response_goes_out_as_it_is(small):
    assert small.get("/text").text == "as it is"


def test_a_socket_gets_the_house(small):
    with small.websocket_connect("/thing/x/watch") as socket:
        assert socket.receive_text() == "the house x"


def test_a_slash_in_a_hole_is_no_word(small):
    assert small.get("/thing/a%2Fb").status_code == 404


def test_declaring_a_method_twice_is_a_mistake():
    with pytest.raises(ValueError, match="declared twice"):
        build_routes([ROUTES[0], ROUTES[0]], None)
