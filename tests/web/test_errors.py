import json

import pytest
from starlette.exceptions import HTTPException

from palaestra.core.errors import DamagedFile, MissingExtra, NotFound, RunFailed, UsageError
from palaestra.core.worker_kind import FieldError, RequestRefused
from palaestra.daemon.errors import Conflict, DamagedIndex, QueueFull, StoreRefused
from palaestra.web.errors import Refusal, answer_http_error, error_answer, status_of


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
        (Refusal(416, "x"), 416),
    ],
)
def test_every_error_of_the_house_has_its_status(error, status):
    assert status_of(error) == status
    assert error_answer(error).status_code == status


def test_all_complaints_are_told():
    error = RequestRefused([FieldError("ppo.gamma", "too high", "try 0.9"), FieldError("name", "taken")])
    told = json.loads(error_answer(error).body)["error"]
    assert told["fields"] == [
        {"key": "ppo.gamma", "message": "too high", "hint": "try 0.9", "exit_code": 2},
        {"key": "name", "message": "taken", "hint": "", "exit_code": 2},
    ]


def test_a_refusal_brings_its_headers():
    answer = error_answer(Refusal(405, "no", "maybe", headers={"allow": "GET"}))
    assert answer.headers["allow"] == "GET"
    assert json.loads(answer.body) == {"error": {"message": "no", "hint": "maybe", "fields": []}}


async def answered(error):
    return await answer_http_error(None, error)


def test_starlette_s_own_errors_look_like_ours():
    coroutine = answered(HTTPException(404, "Not Found"))
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    assert json.loads(done.value.value.body)["error"]["message"] == "Not Found."
