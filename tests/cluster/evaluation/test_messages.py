from __future__ import annotations

import json
import math
import os

import pytest

from palaestra.cluster.evaluation import messages
from palaestra.cluster.evaluation.messages import (
    CodeRefusal,
    InvalidResponse,
    PlayedShare,
    Progress,
    Refusal,
    Worker,
    imported_modules,
    progress_to_json,
    read_response,
    share_from_json,
    share_to_json,
)
from palaestra.core.evaluation import EvaluationPlan, EvaluationRequest
from palaestra.runs.environment import (
    CodeDifferences,
    code_identity,
    shorten,
)

PLAN = EvaluationPlan("run:3", "CartPole-v1", {}, (7, 8))


def row(seed, **changes):
    fields = {"seed": seed, "total_reward": 0.1 + 0.2, "length": 3, "terminated": True, "env_index": 0, "env_step": 0}
    return {**fields, "extras": {"goal": 1.0}, **changes}


def answer(**changes):
    return {"host": "there", "pid": 1, "seconds": 0.5, "episodes": [row(7), row(8)], **changes}


def test_numbers_arrive_as_they_were_to_the_last_bit():
    read = read_response(json.dumps(answer(episodes=[row(7), row(8, total_reward=math.nan, length=4)])), PLAN)
    assert isinstance(read, PlayedShare)
    assert read.episodes[0].total_reward == 0.1 + 0.2
    assert math.isnan(read.episodes[1].total_reward)
    assert (read.episodes[0].seed, read.episodes[1].length, read.episodes[0].extras) == (7, 4, {"goal": 1.0})


def test_a_refusal_says_what_and_why():
    arguments = {"message": "Not with this policy.", "hint": "Take another.", "exit_code": 2}
    refused = {"host": "there", "pid": 1, "refused": arguments}
    assert read_response(json.dumps(refused), PLAN) == Refusal("Not with this policy.", "Take another.", 2)


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
        json.dumps(answer(code_differences={"versions": [1], "package": None, "modules": {}})),
        json.dumps({"host": "there", "pid": 1, "refused": {"message": "No.", "hint": "", "exit_code": 0}}),
    ],
)
def test_garbage_is_refused(nonsense):
    with pytest.raises(InvalidResponse):
        read_response(nonsense, PLAN)


def test_progress_says_who_plays_and_how_many_episodes_have_ended():
    line = json.loads(progress_to_json("node-b", 3))
    assert read_response(json.dumps(line), PLAN) == Progress(Worker(line["host"], "node-b"), os.getpid(), 3)
    with pytest.raises(InvalidResponse, match="finished"):
        read_response(json.dumps({**line, "finished": -1}), PLAN)


def test_an_endless_reply_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(messages, "LARGEST_RESPONSE", 10)
    with pytest.raises(InvalidResponse, match="characters, more than 10"):
        read_response(json.dumps(answer()), PLAN)


def test_other_code_without_episodes_is_a_refusal_and_with_them_a_result():
    code = {"versions": ["torch 1.0 (here 2.0)"], "package": None, "modules": {}}
    refused = read_response(json.dumps({"host": "there", "pid": 1, "node": "b", "code_differences": code}), PLAN)
    assert refused == CodeRefusal(Worker("there", "b"), CodeDifferences(("torch 1.0 (here 2.0)",), None, {}))
    accepted = read_response(json.dumps(answer(code_differences=code)), PLAN)
    assert (len(accepted.episodes), accepted.code) == (2, refused.code)
    assert read_response(json.dumps(answer()), PLAN).code is None


def plan_of(*seeds, simulation="default", env_id="CartPole-v1"):
    return EvaluationPlan("run:3", env_id, {"sutton_barto_reward": True}, seeds, simulation=simulation)


def request_of(*plans):
    return EvaluationRequest("run", "name", 3, 300, "ab" * 32, plans, {"palaestra": "0.1.0"}, "c0ffee")


def test_a_share_arrives_with_the_whole_simulation_the_code_and_no_other():
    request = request_of(plan_of(1, 2, 3), plan_of(1, 2, 3, simulation="other"))
    text = share_to_json(request, plan_of(2, 3), trust_module=True, code=code_identity(), allow_different_code=True)
    share = share_from_json(text)
    assert share.plan == plan_of(2, 3)
    assert (share.trust_module, share.allow_different_code, share.code) == (True, True, code_identity())
    assert (share.request.weights, share.request.git_commit, share.request.versions) == (
        request.weights,
        "c0ffee",
        {"palaestra": "0.1.0"},
    )


def test_what_travels_is_json():
    fields = json.loads(share_to_json(request_of(plan_of(1)), plan_of(1), trust_module=False, code=code_identity()))
    assert set(fields) == {"request", "trust_module", "code", "allow_different_code"}
    assert json.loads(fields["request"])["plans"][0]["seeds"] == [1]


def test_modules_are_those_of_environments_and_of_the_policy():
    plans = [plan_of(1), plan_of(1, env_id="my_maze:Maze-v0"), plan_of(1, env_id="my_maze:Maze-v0")]
    assert imported_modules(plans, {"graph": "mlp", "module": "nets.small:Net"}) == ("my_maze", "nets.small")
    assert imported_modules(plans[:1], {"module": None}) == ()


def test_many_files_are_counted():
    assert shorten([f"{letter}.py" for letter in "abcdefg"]) == "a.py, b.py, c.py, d.py, e.py and 2 more"
    assert shorten(["a.py"]) == "a.py"
