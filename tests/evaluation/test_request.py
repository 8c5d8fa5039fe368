import hashlib
import json
from dataclasses import asdict, replace

import pytest

from palaestra.core.episodes import EpisodeResult
from palaestra.core.evaluation import EvaluationPlan
from palaestra.evaluation.request import (
    episode_from,
    key_of,
    make_request,
    plan_from,
    request_from_json,
    request_to_json,
    weights_of,
)
from palaestra.runs.files import finite

PLAN = EvaluationPlan("run:3", "CartPole-v1", {"sutton_barto_reward": True}, (1, 2), simulation="short", category="a")


def test_a_request_comes_back_from_json_as_it_was(trained_run):
    request = make_request(trained_run.save(epoch=4), [PLAN, replace(PLAN, simulation="long")], git_commit="abc")
    assert request_from_json(request_to_json(request)) == request
    assert (request.epoch, request.agent_step, request.git_commit) == (4, 400, "abc")
    assert request.versions["palaestra"]


def test_the_weights_are_named_by_the_digest_of_their_file(trained_run):
    checkpoint = trained_run.save(epoch=4)
    content = (trained_run.directory.checkpoints / "model_0004.safetensors").read_bytes()
    assert weights_of(checkpoint) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": (1, 3)},
        {"env_id": "Acrobot-v1"},
        {"env_kwargs": {}},
        {"deterministic": False},
        {"max_episode_steps": 7},
        {"simulation": "other"},
        {"max_steps": 9},
    ],
)
def test_whatever_changes_a_result_changes_the_key(changes):
    assert key_of("w", [PLAN]) != key_of("w", [replace(PLAN, **changes)])


def test_what_changes_no_result_does_not_change_the_key():
    assert key_of("w", [PLAN]) == key_of("w", [replace(PLAN, checkpoint="copy:3", suite="mine", category="b")])
    assert key_of("w", [PLAN]) != key_of("v", [PLAN])
    assert key_of("w", [PLAN]) != key_of("w", [PLAN, replace(PLAN, simulation="two")])


def test_evaluations_from_before_max_steps_existed_are_still_found():
    plan = {"env_id": "A", "env_kwargs": {}, "seeds": [1], "deterministic": True, "simulation": "default"}
    text = json.dumps(["w", [{**plan, "max_episode_steps": None}]], sort_keys=True)
    assert key_of("w", [EvaluationPlan("run:1", "A", {}, (1,))]) == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_a_plan_and_an_episode_come_back_from_a_file_also_when_they_are_not_finite():
    assert plan_from(json.loads(json.dumps(asdict(PLAN)))) == PLAN
    episode = EpisodeResult(3, float("inf"), 2, False, extras={"heart": float("-inf")})
    assert episode_from(json.loads(json.dumps(finite(asdict(episode))))) == episode
