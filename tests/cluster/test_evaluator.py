"""Real Ray, one session for all of these tests: what it brings is what one brings alone."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from palaestra.cluster.address import VARIABLE
from palaestra.cluster.evaluator import RayClient, open_evaluator
from palaestra.config.distributed import ClusterConfig
from palaestra.config.env import EnvConfig
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import make_plan, make_request, merge_episodes
from palaestra.evaluation.pool import PolicyPoolEvaluator
from palaestra.evaluation.targets import load_policy_target

PATIENCE_SECONDS = 240.0  # Ray starts slowly on a busy machine
HERE = str(Path(__file__).parent)


@pytest.fixture(scope="module")
def evaluator():
    sys.path.append(HERE)  # where waiting_env is, also for Ray's workers
    try:
        with RayClient(ClusterConfig(cpus=2)) as opened:
            yield opened
    finally:
        sys.path.remove(HERE)


@pytest.fixture
def target(trained_run):
    return load_policy_target("judged:3", trained_run.root)


def answer_to(evaluator, target, *plans):
    number = evaluator.send(make_request(target.checkpoint, plans), target.checkpoint.path, trust_module=True)
    return answer_of(evaluator, number)


def answer_of(evaluator, number):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        evaluator.wait(0.1)
        for answer in evaluator.answers():
            if answer.number == number:
                return answer
    pytest.fail(f"no answer within {PATIENCE_SECONDS} s")


@pytest.mark.full
@pytest.mark.slow
def test_the_same_plan_alone_on_two_processes_and_on_ray_gives_the_same_episodes(evaluator, target, trained_run):
    plan = make_plan("judged:3", trained_run.env, episodes=21, seed=30, deterministic=False)
    alone = tuple(LocalEvaluator(target.loaded).evaluate(plan))
    in_batches = tuple(
        episode
        for seeds in (plan.seeds[:8], plan.seeds[8:])
        for episode in LocalEvaluator(target.loaded).evaluate(replace(plan, seeds=seeds))
    )
    with PolicyPoolEvaluator(target, 2) as crowd:
        on_two = merge_episodes(plan, crowd.evaluate(plan, lambda: False), 1.0).episodes
    answer = answer_to(evaluator, target, plan)
    assert answer.error is None
    assert answer.report.complete
    assert answer.report.episodes == on_two == in_batches == alone


@pytest.mark.fault("V2")
@pytest.mark.slow
def test_a_worker_killed_in_mid_batch_costs_time_and_no_episode_comes_twice(evaluator, target, tmp_path, trained_run):
    env = EnvConfig(id="waiting_env:Waiting-v0", kwargs={"folder": str(tmp_path)})
    plan = make_plan("judged:3", env, episodes=8, seed=50)
    came = []
    request = make_request(target.checkpoint, [plan])
    number = evaluator.send(request, target.checkpoint.path, trust_module=True, on_episodes=came.extend)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
        assert time.monotonic() < deadline, "nobody plays"
        evaluator.wait(0.05)
        assert evaluator.answers() == []
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    answer = answer_of(evaluator, number)
    assert (answer.error, answer.retries) == (None, 1)
    assert sorted(episode.seed for episode in came) == list(plan.seeds), "each exactly once"
    in_cartpole = make_plan("judged:3", trained_run.env, episodes=8, seed=50)
    assert answer.report.episodes == tuple(LocalEvaluator(target.loaded).evaluate(in_cartpole))


@pytest.mark.slow
def test_many_requests_are_under_way_at_once_and_a_refusal_concerns_one(evaluator, target, trained_run):
    path = target.checkpoint.path
    plans = [make_plan("judged:3", trained_run.env, episodes=2, seed=seed) for seed in range(0, 40, 2)]
    numbers = [evaluator.send(make_request(target.checkpoint, [plan]), path, trust_module=True) for plan in plans]
    wrong = make_plan("judged:3", EnvConfig(id="Pendulum-v1"), episodes=2, seed=0)
    refused = evaluator.send(make_request(target.checkpoint, [wrong]), path, trust_module=True)
    answers, deadline = {}, time.monotonic() + PATIENCE_SECONDS
    while len(answers) < 21 and time.monotonic() < deadline:
        evaluator.wait(0.1)
        answers.update((answer.number, answer) for answer in evaluator.answers())
    for number, plan in zip(numbers, plans, strict=True):
        assert answers[number].report.episodes == tuple(LocalEvaluator(target.loaded).evaluate(plan))
    assert answers[refused].report is None
    assert "This policy does not fit" in answers[refused].error.message
    assert not answers[refused].is_ray_lost
    assert evaluator.outstanding == 0


@pytest.mark.full
@pytest.mark.fault("V2")
@pytest.mark.slow
def test_when_the_process_that_speaks_with_ray_is_lost_all_are_told_and_another_may_be_asked(target, trained_run):
    plan = make_plan("judged:3", trained_run.env, episodes=2, seed=0)
    with RayClient(ClusterConfig(cpus=1)) as evaluator:
        number = evaluator.send(make_request(target.checkpoint, [plan]), target.checkpoint.path, trust_module=True)
        os.kill(evaluator._link.pid, signal.SIGKILL)
        answer = answer_of(evaluator, number)
        assert answer.is_ray_lost
        assert "Ray on this machine is gone" in str(answer.error)
        assert answer_to(evaluator, target, plan).report.complete


@pytest.mark.fault("V2")
def test_a_port_at_which_nobody_listens_is_one_line_at_once(target, trained_run):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    plan = make_plan("judged:3", trained_run.env, episodes=2, seed=0)
    with RayClient(ClusterConfig(address=f"127.0.0.1:{port}")) as evaluator:
        evaluator.submit(make_request(target.checkpoint, [plan]), target.checkpoint.path)
        deadline, heard = time.monotonic() + PATIENCE_SECONDS, []
        while not heard and time.monotonic() < deadline:
            evaluator.wait(0.1)
            heard = evaluator.collect()
    ((request, words),) = heard
    assert request.plans == (plan,)
    assert f"No cluster can be reached at 127.0.0.1:{port}: Connection refused." in words


@pytest.mark.full
@pytest.mark.fault("V2")
@pytest.mark.slow
def test_a_black_hole_that_accepts_and_never_answers_is_given_up_within_40_seconds(target, trained_run):
    plan = make_plan("judged:3", trained_run.env, episodes=2, seed=0)
    with socket.create_server(("127.0.0.1", 0)) as hole:
        address = f"127.0.0.1:{hole.getsockname()[1]}"
        with RayClient(ClusterConfig(address=address)) as evaluator:
            began = time.monotonic()
            answer = answer_to(evaluator, target, plan)
            assert time.monotonic() - began < 40
    assert answer.is_ray_lost
    assert address in str(answer.error)


def test_nothing_is_started_before_something_is_asked(trained_run, monkeypatch):
    monkeypatch.setenv(VARIABLE, "head:6379")
    evaluator = open_evaluator(trained_run.directory)
    assert evaluator.collect() == []
    assert evaluator.outstanding == 0
    evaluator.close()
    assert not (trained_run.directory.logs / "ray.log").exists()


def test_ray_is_not_loaded_by_who_asks():
    code = "import sys, palaestra.cluster.requesting, palaestra.cluster.players; print('ray' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
