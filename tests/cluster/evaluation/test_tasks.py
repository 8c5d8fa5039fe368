import json
from dataclasses import replace

import pytest
import torch

from palaestra.cluster.evaluation import tasks
from palaestra.cluster.evaluation.driver import packed
from palaestra.cluster.evaluation.messages import CodeRefusal, PlayedShare, Refusal, read_response, share_to_json
from palaestra.config.env import EnvConfig
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import make_plan, make_request, weights_of
from palaestra.evaluation.targets import load_policy_target
from palaestra.policies.agent import Agent
from palaestra.runs.environment import code_of_process, describe_differences, package_files


@pytest.fixture
def asked(trained_run):
    checkpoint = load_policy_target("judged:3", trained_run.root).checkpoint
    plan = make_plan("judged:3", trained_run.env, episodes=3, seed=50, deterministic=False)
    return make_request(checkpoint, [plan]), *packed(checkpoint.path, weights_of(checkpoint))[:2]


@pytest.fixture(autouse=True)
def _fresh_worker(monkeypatch):
    monkeypatch.setattr(tasks, "_evaluators", tasks.OrderedDict())


def response_of(*arguments):
    """The last line of what a worker says of a share."""
    *progress, response = tasks.play_share(*arguments)
    assert all("finished" in json.loads(line) for line in progress)
    return response


def played(request, sidecar, weights, **changes):
    plan = replace(request.plans[0], **changes)
    return read_response(
        response_of(share_to_json(request, plan, trust_module=False, code=code_of_process(())), sidecar, weights),
        plan,
    )


def test_a_share_is_played_as_at_home(trained_run, asked):
    request, sidecar, weights = asked
    at_home = tuple(LocalEvaluator(load_policy_target("judged:3", trained_run.root).loaded).evaluate(request.plans[0]))
    assert played(request, sidecar, weights).episodes == at_home
    some = played(request, sidecar, weights, seeds=(51, 52))
    assert some.episodes == at_home[1:]


def test_a_policy_is_loaded_once_and_the_one_used_longest_ago_is_forgotten(trained_run, asked, monkeypatch):
    request, sidecar, weights = asked
    loads = []
    monkeypatch.setattr(Agent, "load_state_dict", _counted(Agent.load_state_dict, loads))
    for seed in (50, 51, 52):
        assert isinstance(played(request, sidecar, weights, seeds=(seed,)), PlayedShare)
    assert len(loads) == 1
    other = trained_run.save(epoch=4, seed=1)
    monkeypatch.setattr(tasks, "MAX_POLICIES", 1)
    played(replace(request, weights=weights_of(other)), *packed(other.path, weights_of(other))[:2])
    assert len(tasks._evaluators) == 1
    played(request, sidecar, weights)
    assert len(loads) == 3


def _counted(load, loads):
    def count(self, *arguments, **named):
        loads.append(1)
        return load(self, *arguments, **named)

    return count


def test_one_thread_plays_and_the_others_are_left_as_they_were(asked, monkeypatch):
    threads = []
    monkeypatch.setattr(
        LocalEvaluator, "evaluate", lambda self, plan: threads.append(torch.get_num_threads()) or iter(())
    )
    before = torch.get_num_threads()
    request, sidecar, weights = asked
    response_of(
        share_to_json(request, request.plans[0], trust_module=False, code=code_of_process(())), sidecar, weights
    )
    assert threads == [1]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("change", ["weights", "sidecar"])
def test_bytes_that_changed_meanwhile_are_refused(asked, change):
    request, sidecar, weights = asked
    if change == "weights":
        weights = weights[:-1] + bytes([weights[-1] ^ 1])
    else:
        sidecar = sidecar.replace(b"epoch: 3", b"epoch: 4")
    reply = played(request, sidecar, weights)
    assert isinstance(reply, Refusal)
    assert "sha256" in reply.message or "checksum" in reply.message


def test_other_weights_than_those_of_the_request_are_refused(asked):
    request, sidecar, weights = asked
    reply = played(replace(request, weights="0" * 64), sidecar, weights)
    assert "different sha256 than the request" in reply.message


def test_other_code_is_refused_with_its_files_or_played_and_reported(asked, monkeypatch):
    request, sidecar, weights = asked
    plan = request.plans[0]
    code = replace(code_of_process(()), package="of another edit")
    texts = {
        allowed: share_to_json(request, plan, trust_module=False, code=code, allow_different_code=allowed)
        for allowed in (False, True)
    }
    theirs = {**tasks_files(), "algorithms/ppo/update.py": "edited"}
    monkeypatch.setattr("palaestra.runs.environment.package_files", lambda: theirs)
    refused = read_response(response_of(texts[False], sidecar, weights, "node-b"), plan)
    assert isinstance(refused, CodeRefusal)
    assert refused.worker.node == "node-b"
    accepted = read_response(response_of(texts[True], sidecar, weights), plan)
    assert isinstance(accepted, PlayedShare)
    monkeypatch.undo()
    for code_there in (refused.code, accepted.code):
        assert describe_differences(code_there) == ["palaestra/algorithms/ppo/update.py"]


def tasks_files():
    return dict(package_files())


def test_what_this_policy_cannot_play_is_refused_in_words(asked):
    request, sidecar, weights = asked
    env = EnvConfig(id="Pendulum-v1")
    reply = played(request, sidecar, weights, env_id=env.id)
    assert "This policy does not fit 'Pendulum-v1'" in reply.message


def test_the_reply_says_who_played(asked):
    request, sidecar, weights = asked
    reply = json.loads(
        response_of(
            share_to_json(request, request.plans[0], trust_module=False, code=code_of_process(())), sidecar, weights
        )
    )
    assert reply["pid"] > 0
    assert reply["host"]


def test_progress_is_reported_after_episodes_that_take_long(asked, monkeypatch):
    request, sidecar, weights = asked
    seconds = iter([0.0, 0.5, 1.5, 1.5, 2.0, 9.0])  # begin, three episodes, a report after the second, end
    monkeypatch.setattr(tasks, "monotonic", lambda: next(seconds))
    text = share_to_json(request, request.plans[0], trust_module=False, code=code_of_process(()))
    *progress, response = tasks.play_share(text, sidecar, weights, "node-b")
    assert [(json.loads(line)["finished"], json.loads(line)["node"]) for line in progress] == [(2, "node-b")]
    assert len(json.loads(response)["episodes"]) == 3
