import json
import math
from dataclasses import dataclass
from pathlib import Path

from palaestra.core.run import RunState
from palaestra.web.answers import encode, json_answer, plain


@dataclass(frozen=True)
class Thing:
    where: Path
    state: RunState
    numbers: tuple[float, ...]


def test_numbers_that_are_not_finite_are_null():
    assert json.loads(encode({"a": math.nan, "b": [math.inf, 1.5], "c": {"d": -math.inf}})) == {
        "a": None,
        "b": [None, 1.5],
        "c": {"d": None},
    }


def test_what_json_does_not_know_is_told_plainly():
    thing = Thing(Path("/x"), RunState.LOST, (1.0, math.nan))
    assert json.loads(encode({"thing": thing, "set": {1}})) == {
        "thing": {"where": "/x", "state": "lost", "numbers": [1.0, None]},
        "set": [1],
    }
    assert plain({1: (2,)}) == {"1": [2]}


def test_letters_go_out_as_they_are_and_half_a_letter_is_replaced():
    assert encode("ä😀") == '"ä😀"'.encode()
    assert encode("\ud800") == b'"?"'


def test_an_answer_is_json_with_its_status_and_headers():
    answer = json_answer([1], 201, {"x-own": "y"})
    assert (answer.status_code, answer.body, answer.media_type) == (201, b"[1]", "application/json")
    assert answer.headers["x-own"] == "y"
