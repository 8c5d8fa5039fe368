from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from palaestra.core.errors import DamagedFile, MissingExtra, NotFound, RunFailed, UsageError
from palaestra.core.run import RunState
from palaestra.core.worker_kind import FieldError, RequestRefused
from palaestra.daemon.errors import Conflict, DamagedIndex, QueueFull, StoreRefused
from palaestra.web.responses import (
    HttpError,
    encode_json,
    error_response,
    handle_http_error,
    json_response,
    status_of,
    to_json_types,
)


@dataclass(frozen=True)
class Thing:
    where: Path
    state: RunState
    numbers: tuple[float, ...]


def test_non_finite_numbers_are_null():
    assert json.loads(encode_json({"a": math.nan, "b": [math.inf, 1.5], "c": {"d": -math.inf}})) == {
        "a": None,
        "b": [None, 1.5],
        "c": {"d": None},
    }


def test_other_types_are_converted_to_json():
    thing = Thing(Path("/x"), RunState.LOST, (1.0, math.nan))
    assert json.loads(encode_json({"thing": thing, "set": {1}})) == {
        "thing": {"where": "/x", "state": "lost", "numbers": [1.0, None]},
        "set": [1],
    }
    assert to_json_types({1: (2,)}) == {"1": [2]}


def test_text_is_utf8_and_a_lone_surrogate_is_replaced():
    assert encode_json("ä😀") == '"ä😀"'.encode()
    assert encode_json("\ud800") == b'"?"'


def test_a_json_response_has_its_status_and_headers():
    reply = json_response([1], 201, {"x-own": "y"})
    assert (reply.status_code, reply.body, reply.media_type) == (201, b"[1]", "application/json")
    assert reply.headers["x-own"] == "y"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("x"), 404),
        (UsageError("x"), 422),
        (RequestRefused([FieldError("a", "b")]), 422),
        (MissingExtra("x", "mujoco"), 422),
        (Conflict("x"), 409),
        (StoreRefused("x"), 507),
        (QueueFull("x"), 503),
        (DamagedFile("x"), 409),
        (DamagedIndex("x"), 409),
        (RunFailed("x"), 409),
        (HttpError(416, "x"), 416),
    ],
)
def test_every_palaestra_error_has_its_status(error, status):
    assert status_of(error) == status
    assert error_response(error).status_code == status


def test_all_field_errors_are_returned():
    error = RequestRefused([FieldError("ppo.gamma", "too high", "try 0.9"), FieldError("name", "taken")])
    reports = json.loads(error_response(error).body)["error"]
    assert reports["fields"] == [
        {"key": "ppo.gamma", "message": "too high", "hint": "try 0.9", "exit_code": 2},
        {"key": "name", "message": "taken", "hint": "", "exit_code": 2},
    ]


def test_an_http_error_has_its_headers():
    reply = error_response(HttpError(405, "no", "maybe", headers={"allow": "GET"}))
    assert reply.headers["allow"] == "GET"
    assert json.loads(reply.body) == {"error": {"message": "no", "hint": "maybe", "fields": []}}


async def replied(error):
    return await handle_http_error(None, error)


def test_starlette_errors_have_the_same_format():
    coroutine = replied(HTTPException(404, "Not Found"))
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    assert json.loads(done.value.value.body)["error"]["message"] == "Not Found."
