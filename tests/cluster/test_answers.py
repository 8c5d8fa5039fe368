import json
import math

import pytest

from palaestra.cluster import answers
from palaestra.cluster.answers import CodeRefusal, Garbage, OtherCode, Played, Refusal, Worker, read_answer
from palaestra.core.evaluation import EvaluationPlan

PLAN = EvaluationPlan("run:3", "CartPole-v1", {}, (7, 8))


def row(seed, **changes):
    fields = {"seed": seed, "total_reward": 0.1 + 0.2, "length": 3, "terminated": True, "env_index": 0, "env_step": 0}
    return {**fields, "extras": {"goal": 1.0}, **changes}


def answer(**changes):
    return {"host": "there", "pid": 1, "seconds": 0.5, "episodes": [row(7), row(8)], **changes}


def test_numbers_arrive_as_they_were_to_the_last_bit():
    read = read_answer(json.dumps(answer(episodes=[row(7), row(8, total_reward=math.nan, length=4)])), PLAN)
    assert isinstance(read, Played)
    assert read.episodes[0].total_reward == 0.1 + 0.2
    assert math.isnan(read.episodes[1].total_reward)
    assert (read.episodes[0].seed, read.episodes[1].length, read.episodes[0].extras) == (7, 4, {"goal": 1.0})


def test_a_refusal_says_what_and_why():
    words = {"message": "Not with this policy.", "hint": "Take another.", "exit_code": 2}
    refused = {"host": "there", "pid": 1, "refused": words}
    assert read_answer(json.dumps(refused), PLAN) == Refusal("Not with this policy.", "Take another.", 2)


@pytest.mark.fault("V2")
@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        b"{}",
        42,
        "",
        "not JSON",
        "[]",
        "{}",
        json.dumps(answer(episodes=[row(7)])),
        json.dumps(answer(episodes=[row(7), row(7)])),
        json.dumps(answer(episodes=[row(7), row(8), row(9)])),
        json.dumps(answer(episodes=[row(7), row("8")])),
        json.dumps(answer(episodes=[row(7), row(8, length=-1)])),
        json.dumps(answer(episodes=[row(7), row(8, total_reward="much")])),
        json.dumps(answer(episodes=[row(7), row(8, surprise=1)])),
        json.dumps(answer(seconds=math.inf)),
        json.dumps(answer(command="rm")),
        json.dumps(answer(other_code={"versions": [1], "package": None, "modules": {}})),
        json.dumps({"host": "there", "pid": 1, "refused": {"message": "No.", "hint": "", "exit_code": 0}}),
    ],
)
def test_garbage_is_refused(nonsense):
    with pytest.raises(Garbage):
        read_answer(nonsense, PLAN)


def test_an_endless_answer_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(answers, "LARGEST_ANSWER", 10)
    with pytest.raises(Garbage, match="characters, more than 10"):
        read_answer(json.dumps(answer()), PLAN)


def test_other_code_without_episodes_is_a_refusal_and_with_them_a_result():
    code = {"versions": ["torch 1.0 (here 2.0)"], "package": None, "modules": {}}
    refused = read_answer(json.dumps({"host": "there", "pid": 1, "node": "b", "other_code": code}), PLAN)
    assert refused == CodeRefusal(Worker("there", "b"), OtherCode(("torch 1.0 (here 2.0)",), None, {}))
    accepted = read_answer(json.dumps(answer(other_code=code)), PLAN)
    assert (len(accepted.episodes), accepted.code) == (2, refused.code)
    assert read_answer(json.dumps(answer()), PLAN).code is None
