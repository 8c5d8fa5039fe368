"""Real Ray, one session for all of these tests: what it brings is what one brings alone."""

from __future__ import annotations

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
from palaestra.cluster.evaluation import client as link_module
from palaestra.cluster.evaluation.client import DriverProcess, RayClient, open_evaluator
from palaestra.config.distributed import ClusterConfig
from palaestra.config.env import EnvConfig
from palaestra.core.errors import RunFailed
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
        for result in evaluator.responses():
            if result.number == number:
                return result
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
    result = answer_to(evaluator, target, plan)
    assert result.error is None
    assert result.report.complete
    assert result.report.episodes == on_two == in_batches == alone


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
        assert evaluator.responses() == []
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    result = answer_of(evaluator, number)
    assert (result.error, result.retries) == (None, 1)
    assert sorted(episode.seed for episode in came) == list(plan.seeds), "each exactly once"
    in_cartpole = make_plan("judged:3", trained_run.env, episodes=8, seed=50)
    assert result.report.episodes == tuple(LocalEvaluator(target.loaded).evaluate(in_cartpole))


@pytest.mark.fault("V2")
@pytest.mark.slow
def test_a_hung_worker_on_a_live_node_loses_its_share_to_another(target, tmp_path, trained_run, monkeypatch, caplog):
    """The environment hangs in the first process that plays seed 52; nobody kills it but the driver."""
    monkeypatch.syspath_prepend(HERE)
    env = EnvConfig(id="waiting_env:Waiting-v0", kwargs={"folder": str(tmp_path)})
    plan = make_plan("judged:3", env, episodes=8, seed=50)
    came = []
    with RayClient(ClusterConfig(cpus=2, share_timeout=20)) as evaluator:
        request = make_request(target.checkpoint, [plan])
        number = evaluator.send(request, target.checkpoint.path, trust_module=True, on_episodes=came.extend)
        result = answer_of(evaluator, number)
    assert (result.error, result.retries) == (None, 1)
    assert sorted(episode.seed for episode in came) == list(plan.seeds), "each exactly once"
    in_cartpole = make_plan("judged:3", trained_run.env, episodes=8, seed=50)
    assert result.report.episodes == tuple(LocalEvaluator(target.loaded).evaluate(in_cartpole))
    hung = int((tmp_path / "pid").read_text())
    (line,) = [message for message in caplog.messages if "Worker left out" in message]
    assert f"process {hung} on " in line
    assert "no episode of 'default' ended within 20 s (cluster.share_timeout)" in line


@pytest.mark.slow
def test_many_requests_are_under_way_at_once_and_a_refusal_concerns_one(evaluator, target, trained_run):
    path = target.checkpoint.path
    plans = [make_plan("judged:3", trained_run.env, episodes=2, seed=seed) for seed in range(0, 40, 2)]
    numbers = [evaluator.send(make_request(target.checkpoint, [plan]), path, trust_module=True) for plan in plans]
    wrong = make_plan("judged:3", EnvConfig(id="Pendulum-v1"), episodes=2, seed=0)
    refused = evaluator.send(make_request(target.checkpoint, [wrong]), path, trust_module=True)
    responses, deadline = {}, time.monotonic() + PATIENCE_SECONDS
    while len(responses) < 21 and time.monotonic() < deadline:
        evaluator.wait(0.1)
        responses.update((result.number, result) for result in evaluator.responses())
    for number, plan in zip(numbers, plans, strict=True):
        assert responses[number].report.episodes == tuple(LocalEvaluator(target.loaded).evaluate(plan))
    assert responses[refused].report is None
    assert "This policy does not fit" in responses[refused].error.message
    assert not responses[refused].is_ray_lost
    assert evaluator.outstanding == 0


@pytest.mark.full
@pytest.mark.fault("V2")
@pytest.mark.slow
def test_when_the_process_that_speaks_with_ray_is_lost_all_are_reported_and_another_may_be_requested(
    target, trained_run
):
    plan = make_plan("judged:3", trained_run.env, episodes=2, seed=0)
    with RayClient(ClusterConfig(cpus=1)) as evaluator:
        number = evaluator.send(make_request(target.checkpoint, [plan]), target.checkpoint.path, trust_module=True)
        os.kill(evaluator._link.pid, signal.SIGKILL)
        result = answer_of(evaluator, number)
        assert result.is_ray_lost
        assert "Ray on this machine is gone" in str(result.error)
        assert answer_to(evaluator, target, plan).report.complete


@pytest.mark.fault("V2")
def test_a_port_at_which_nobody_listens_is_one_line_at_once(target, trained_run):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    plan = make_plan("judged:3", trained_run.env, episodes=2, seed=0)
    with RayClient(ClusterConfig(address=f"127.0.0.1:{port}")) as evaluator:
        evaluator.submit(make_request(target.checkpoint, [plan]), target.checkpoint.path)
        deadline, received = time.monotonic() + PATIENCE_SECONDS, []
        while not received and time.monotonic() < deadline:
            evaluator.wait(0.1)
            received = evaluator.collect()
    ((request, arguments),) = received
    assert request.plans == (plan,)
    assert f"No cluster can be reached at 127.0.0.1:{port}: Connection refused." in arguments


@pytest.mark.full
@pytest.mark.fault("V2")
@pytest.mark.slow
def test_a_black_hole_that_accepts_and_never_replies_is_given_up_within_40_seconds(target, trained_run):
    plan = make_plan("judged:3", trained_run.env, episodes=2, seed=0)
    with socket.create_server(("127.0.0.1", 0)) as hole:
        address = f"127.0.0.1:{hole.getsockname()[1]}"
        with RayClient(ClusterConfig(address=address)) as evaluator:
            began = time.monotonic()
            result = answer_to(evaluator, target, plan)
            assert time.monotonic() - began < 40
    assert result.is_ray_lost
    assert address in str(result.error)


def test_nothing_is_started_before_something_is_requested(trained_run, monkeypatch):
    monkeypatch.setenv(VARIABLE, "head:6379")
    evaluator = open_evaluator(trained_run.directory)
    assert evaluator.collect() == []
    assert evaluator.outstanding == 0
    evaluator.close()
    assert not (trained_run.directory.logs / "ray.log").exists()


def test_ray_is_not_loaded_by_who_asks():
    modules = "palaestra.cluster.evaluation.jobs, palaestra.cluster.evaluation.evaluator"
    code = f"import sys, {modules}; print('ray' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


LINK_PATIENCE_SECONDS = 60.0
HEAD = """
import json, os, sys, time
fd = int(sys.argv[1])
say = lambda **message: os.write(fd, json.dumps(message).encode() + b"\\n")
"""
ECHO = f"""{HEAD}
say(ready=True)
for line in sys.stdin:
    say(id=1, heard=len(line), start=json.loads(line).get("cluster", dict()).get("address"))
"""
LINK_HERE = ClusterConfig()


class SetClock:
    now_seconds = 100.0

    def monotonic(self):
        return self.now_seconds

    def now(self):
        return self.now_seconds


@pytest.fixture
def open_link(tmp_path, monkeypatch):
    links = []

    def start(script, cluster=LINK_HERE, log=None, clock=None):
        (tmp_path / "stand_in_driver.py").write_text(script)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(link_module, "DRIVER", "stand_in_driver")
        links.append(DriverProcess(cluster, log, clock))
        return links[-1]

    yield start
    for link in links:
        link.close()


def received(link, count):
    messages, deadline = [], time.monotonic() + LINK_PATIENCE_SECONDS
    while len(messages) < count:
        assert time.monotonic() < deadline, f"only {messages} came"
        link.wait(0.1)
        messages += link.receive()
    return messages


def failure(link):
    deadline = time.monotonic() + LINK_PATIENCE_SECONDS
    while time.monotonic() < deadline:
        link.wait(0.1)
        try:
            link.receive()
        except RunFailed as error:
            return error
    pytest.fail("it did not fail")


def test_what_is_reported_arrives_and_is_replied_to(open_link):
    link = open_link(ECHO, ClusterConfig(address="head:6379"))
    link.send({"id": 1})
    assert [message["start"] for message in received(link, 2)] == ["head:6379", None]
    pid = link.pid
    link.close()
    link.close()
    assert not Path(f"/proc/{pid}").exists()


def test_nobody_waits_for_a_process_that_does_not_listen(open_link):
    link = open_link(HEAD + "time.sleep(600)\n")
    began = time.monotonic()
    for _ in range(50):
        link.send({"text": "x" * 100_000})
    assert time.monotonic() - began < 5
    os.kill(link.pid, signal.SIGKILL)


def test_much_that_is_reported_at_once_arrives_whole(open_link):
    link = open_link(ECHO)
    for _ in range(20):
        link.send({"text": "x" * 100_000})
    sizes = [message["heard"] for message in received(link, 21)]
    assert sizes[1:] == [len('{"text": ""}\n') + 100_000] * 20


def test_its_own_reason_is_handed_on(open_link):
    link = open_link(HEAD + "say(error='No cluster.', hint='Start one.', exit_code=2)\n")
    error = failure(link)
    assert (error.message, error.hint, error.exit_code) == ("No cluster.", "Start one.", 2)


def test_one_that_dies_is_named_with_its_end(open_link):
    link = open_link(HEAD + "say(ready=True)\nsys.stdin.readline()\nos.kill(os.getpid(), 6)\n")
    error = failure(link)
    assert error.message == "Ray on this machine is gone: its driver process was ended by SIGABRT."


def test_what_it_reported_before_it_died_is_received(open_link):
    link = open_link(HEAD + "say(id=1, last=True)\nos._exit(3)\n")
    assert received(link, 1) == [{"id": 1, "last": True}]
    assert "exit code 3" in failure(link).message


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("time.sleep(600)\n", link_module.OPEN_SECONDS),
        ("say(ready=True)\ntime.sleep(600)\n", link_module.SILENT_SECONDS),
    ],
)
def test_a_silent_driver_is_given_up_in_time(open_link, script, limit):
    clock = SetClock()
    link = open_link(HEAD + script, ClusterConfig(address="head:1"), clock=clock)
    if "ready" in script:
        link.wait(LINK_PATIENCE_SECONDS)
    assert link.receive() == []
    clock.now_seconds += limit - 1
    assert link.receive() == []
    clock.now_seconds += 2
    with pytest.raises(RunFailed, match=f"Ray at head:1 has not responded for {limit:g} s"):
        link.receive()
    assert not Path(f"/proc/{link.pid}").exists()


def test_what_it_prints_goes_to_the_log_and_nowhere_else(open_link, tmp_path, capfd):
    link = open_link(
        HEAD + "print('noise', flush=True)\nprint('more', file=sys.stderr)\nsay(id=1)\n", log=tmp_path / "log"
    )
    received(link, 1)
    failure(link)
    assert (tmp_path / "log").read_text().split() == ["noise", "more"]
    assert capfd.readouterr() == ("", "")


def test_a_note_is_a_warning_and_no_reply(open_link, caplog):
    link = open_link(HEAD + "say(ready=True)\nsay(note='Node left out: b.')\nsay(id=1)\nsys.stdin.read()\n")
    assert received(link, 1) == [{"id": 1}]
    assert [record.getMessage() for record in caplog.records] == ["Node left out: b."]
