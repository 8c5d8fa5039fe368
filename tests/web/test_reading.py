import pytest
from pydantic import Field
from starlette.applications import Starlette
from starlette.testclient import TestClient

from palaestra.web.dispatch import build_routes
from palaestra.web.reading import Body, Query, limited_stream, parse_query, validated
from palaestra.web.route import Endpoint


class Wanted(Query):
    start: int = Field(0, alias="from", ge=0)
    name: tuple[str, ...] = ()
    deep: bool = False


class Asked(Body):
    count: int
    label: str = ""


async def measure(call):
    return {"bytes": sum([len(piece) async for piece in limited_stream(call.request, 100)])}


ROUTES = (
    Endpoint("GET", "/query", lambda call: call.query.model_dump(), "x", query=Wanted),
    Endpoint("GET", "/plain", lambda call: "fine", "x"),
    Endpoint("POST", "/body", lambda call: call.body.model_dump(), "x", body=Asked),
    Endpoint("POST", "/empty", lambda call: "fine", "x"),
    Endpoint("DELETE", "/empty", lambda call: "gone", "x"),
    Endpoint("POST", "/upload", measure, "x", takes=("application/zip",), is_stream=True),
)


@pytest.fixture
def small():
    with TestClient(Starlette(routes=build_routes(ROUTES, None))) as client:
        yield client


def fields(answer):
    return [field["key"] for field in answer.json()["error"]["fields"]]


def test_a_query_has_the_types_that_were_declared(small):
    assert small.get("/query?from=3&name=a&name=b&deep=true").json() == {"start": 3, "name": ["a", "b"], "deep": True}
    assert small.get("/query").json() == {"start": 0, "name": [], "deep": False}


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("from=x", 422, "from"),
        ("from=-1", 422, "from"),
        ("from=1&from=2", 400, "from"),
        ("form=1", 422, "form"),
        ("deep=perhaps", 422, "deep"),
    ],
)
def test_what_cannot_be_is_refused_by_name(small, query, status, field):
    answer = small.get(f"/query?{query}")
    assert (answer.status_code, fields(answer)) == (status, [field])


def test_an_unknown_parameter_gets_a_guess(small):
    assert small.get("/query?form=1").json()["error"]["fields"][0]["hint"] == "Did you mean 'from'?"
    assert small.get("/plain?x=1").status_code == 422


@pytest.mark.parametrize("query", ["name=%ff", "name=%f0%28", "&".join(f"name={n}" for n in range(501))])
def test_a_query_that_cannot_be_read_is_400(small, query):
    assert small.get(f"/query?{query}").status_code == 400


def test_a_body_is_strict_about_types_and_tells_all_that_is_wrong(small):
    assert small.post("/body", json={"count": 1}).json() == {"count": 1, "label": ""}
    answer = small.post("/body", json={"count": "1", "label": 5, "lable": "x"})
    assert (answer.status_code, sorted(fields(answer))) == (422, ["count", "label", "lable"])
    assert small.post("/body", json={"count": True}).status_code == 422
    assert small.post("/body", json=[1]).status_code == 422
    assert small.post("/body", content=b"", headers={"content-type": "application/json"}).status_code == 400


@pytest.mark.fault("W2")
def test_a_mutation_needs_its_content_type_also_without_a_body(small):
    assert small.post("/empty").status_code == 415
    assert small.post("/empty", headers={"content-type": "application/json; charset=utf-8"}).status_code == 200
    assert small.post("/empty", headers={"content-type": "application/jsonx"}).status_code == 415


def test_a_delete_without_a_body_needs_none(small):
    assert small.delete("/empty").status_code == 200
    assert small.request("DELETE", "/empty", content=b"x").status_code == 415


def test_a_stream_has_its_own_type_and_limit(small):
    kind = {"content-type": "application/zip"}
    assert small.post("/upload", content=b"x" * 100, headers=kind).json() == {"bytes": 100}
    assert small.post("/upload", content=b"x" * 101, headers=kind).status_code == 413
    assert small.post("/upload", content=iter([b"x" * 60, b"x" * 60]), headers=kind).status_code == 413
    assert small.post("/upload", json={}).status_code == 415


def test_sockets_read_their_query_the_same_way():
    assert validated(Wanted, parse_query(Wanted, b"from=2&name=a")).start == 2
