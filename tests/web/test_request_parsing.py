from __future__ import annotations

import json

import pytest
from pydantic import Field
from starlette.applications import Starlette
from starlette.testclient import TestClient

from palaestra.web.dispatch import build_routes
from palaestra.web.endpoints import Endpoint
from palaestra.web.request_parsing import Body, Query, limited_stream, parse_json, parse_query, validated
from palaestra.web.responses import HttpError


class Wanted(Query):
    start: int = Field(0, alias="from", ge=0)
    name: tuple[str, ...] = ()
    deep: bool = False


class Requested(Body):
    count: int
    label: str = ""


async def measure(call):
    return {"bytes": sum([len(piece) async for piece in limited_stream(call.request, 100)])}


ROUTES = (
    Endpoint("GET", "/query", lambda call: call.query.model_dump(), "x", query=Wanted),
    Endpoint("GET", "/plain", lambda call: "fine", "x"),
    Endpoint("POST", "/body", lambda call: call.body.model_dump(), "x", body=Requested),
    Endpoint("POST", "/empty", lambda call: "fine", "x"),
    Endpoint("DELETE", "/empty", lambda call: "gone", "x"),
    Endpoint("POST", "/upload", measure, "x", takes=("application/zip",), is_stream=True),
)


@pytest.fixture
def small():
    with TestClient(Starlette(routes=build_routes(ROUTES, None))) as client:
        yield client


def fields(reply):
    return [field["key"] for field in reply.json()["error"]["fields"]]


def test_a_query_has_the_declared_types(small):
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
def test_an_invalid_parameter_is_refused_by_name(small, query, status, field):
    reply = small.get(f"/query?{query}")
    assert (reply.status_code, fields(reply)) == (status, [field])


def test_an_unknown_parameter_gets_a_suggestion(small):
    assert small.get("/query?form=1").json()["error"]["fields"][0]["hint"] == "Did you mean 'from'?"
    assert small.get("/plain?x=1").status_code == 422


@pytest.mark.parametrize("query", ["name=%ff", "name=%f0%28", "&".join(f"name={n}" for n in range(501))])
def test_a_malformed_query_is_400(small, query):
    assert small.get(f"/query?{query}").status_code == 400


def test_a_body_is_strictly_typed_and_all_errors_are_returned(small):
    assert small.post("/body", json={"count": 1}).json() == {"count": 1, "label": ""}
    reply = small.post("/body", json={"count": "1", "label": 5, "lable": "x"})
    assert (reply.status_code, sorted(fields(reply))) == (422, ["count", "label", "lable"])
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


def test_sockets_parse_their_query_the_same_way():
    assert validated(Wanted, parse_query(Wanted, b"from=2&name=a")).start == 2


def refused(content):
    with pytest.raises(HttpError) as caught:
        parse_json(content)
    assert caught.value.status == 400
    return caught.value


def test_valid_json_is_parsed_like_python_does():
    data = {"a": [1, 2.5, None, True, "ä\u2028😀"], "b": {"c": {}}}
    assert parse_json(json.dumps(data).encode()) == data
    assert parse_json(json.dumps(data, ensure_ascii=False).encode()) == data


@pytest.mark.fault("W8")
@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"config": {"ppo": {"gamma": NaN}}}', "config.ppo.gamma"),
        ('{"config": [1, Infinity]}', "config.1"),
        ('{"config": {"x": -Infinity}}', "config.x"),
        ('{"a": {"b": 1e999}}', "a.b"),
        ('{"a": 1, "a": 2}', "a"),
        ('{"outer": {"name": 1, "name": 1}}', "outer.name"),
        ('{"name": "\\ud800"}', "name"),
        ('{"list": ["x", "\\udfff"]}', "list.1"),
        ('{"config": {"script": "a\\u0000b"}}', "config.script"),
        ('{"config": {"a\\u0000b": 1}}', "config"),
    ],
)
def test_invalid_json_is_refused_with_the_path_of_the_field(text, field):
    assert [complaint.key for complaint in refused(text.encode()).fields] == [field]


def test_a_lone_surrogate_in_a_key_is_refused():
    assert "lone surrogate" in refused(b'{"outer": {"\\ud800": 1}}').message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1,]",
        b"{'a': 1}",
        b"\xff\xfe",
        b'{"a": "\xc3"}',
        b"nul",
        b"{} {}",
        b"1" * 5000,
        b'"\x00"',
        b"\xef\xbb\xbf{}",
    ],
)
def test_text_that_is_not_json_is_refused(content):
    refused(content)


@pytest.mark.fault("W8")
def test_too_deep_nesting_is_refused():
    def nested(depth):
        return b"[" * depth + b"]" * depth

    assert parse_json(nested(32)) is not None
    for depth in (33, 900, 100_000):
        assert "levels deep" in refused(nested(depth)).message


def test_an_escaped_surrogate_pair_is_one_character():
    assert parse_json(b'"\\ud83d\\ude00"') == "😀"


def test_the_name_of_a_field_is_shown_up_to_200_characters():
    complaint = refused(b'{"%s": NaN}' % (b"a" * 300)).fields[0]
    assert complaint.key == "a" * 200


def test_an_error_of_the_whole_body_names_no_field():
    found = refused(b"NaN")
    assert [complaint.key for complaint in found.fields] == [""]
    assert found.message.startswith("'the body' is NaN")
