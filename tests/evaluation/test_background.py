"""Evaluators beside a training: a process, also killed ones, and a remote evaluator."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from palaestra.core.child_process import LineChild
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import MissingExtra, RunFailed
from palaestra.core.evaluation import EvaluationReport, SuiteReport
from palaestra.evaluation import background
from palaestra.evaluation.background import (
    ProcessEvaluator,
    RemoteCheckpointEvaluator,
    WorkerProcess,
    open_remote,
    require_remote,
)
from palaestra.evaluation.plans import request_from_json, request_to_json, weights_of
from palaestra.evaluation.summary import read_batches
from palaestra.training.trainer import train

TIMEOUT_SECONDS = 120.0


def until(condition, what):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        reply = condition()
        if reply:
            return reply
        time.sleep(0.005)
    raise AssertionError(f"timed out while waiting for {what}")


@pytest.fixture
def trained(make_bench, small_config):
    bench = make_bench(small_config(total_steps=64, evaluation={"episodes": 3}))
    bench.saved = [bench.saver.save(bench.state) for _ in train(bench.state)]
    return bench


class ManualClock:
    """A clock that a test moves."""

    seconds = 100.0

    def now(self):
        return 0.0

    def monotonic(self):
        return self.seconds


@pytest.fixture
def manual_clock():
    return ManualClock()


@pytest.fixture
def evaluator(trained, manual_clock):
    made = ProcessEvaluator(trained.directory, 60.0, manual_clock)
    yield made
    made.close()


class FakeProcess:
    """Stands in for the process: sends what the test sets, and dies when the test says so."""

    def __init__(self):
        self.sent, self.messages_to_send, self.is_dead = [], [], False

    def send(self, epoch):
        self.sent.append(epoch)

    def receive(self):
        if self.is_dead:
            raise EOFError
        return self.messages_to_send.pop(0) if self.messages_to_send else None

    def exit_reason(self):
        return "was killed by SIGKILL"

    def kill(self):
        self.is_dead = True


@pytest.fixture
def processes(monkeypatch):
    made = []

    def make(directory):
        made.append(FakeProcess())
        return made[-1]

    monkeypatch.setattr(background, "WorkerProcess", make)
    return made


def test_epochs_are_sent_one_at_a_time_and_in_order(trained, evaluator, processes):
    for checkpoint in trained.saved:
        evaluator.submit(checkpoint)
    (process,) = processes
    assert (process.sent, evaluator.outstanding) == ([1], 2)
    assert evaluator.collect() == []
    process.messages_to_send = [{"epoch": 1, "step": 32, "metrics": {"eval/episodic_return": 2.0}, "timings": {}}]
    (result,) = evaluator.collect()
    assert (result.epoch, result.step, result.metrics) == (1, 32, {"eval/episodic_return": 2.0})
    assert (process.sent, evaluator.outstanding) == ([1, 2], 1)


@pytest.mark.fault("R10")
def test_a_dead_process_is_replaced_once_before_its_epoch_is_given_up(trained, evaluator, processes, caplog):
    for checkpoint in trained.saved:
        evaluator.submit(checkpoint)
    processes[0].is_dead = True
    assert evaluator.collect() == []
    assert processes[1].sent == [1]
    assert [record.getMessage() for record in caplog.records] == [
        "The evaluation process was killed by SIGKILL at epoch 1; a new one tries again. Training goes on."
    ]
    processes[1].is_dead = True
    (result,) = evaluator.collect()
    assert result.epoch == 1
    assert "was killed by SIGKILL, 2 times" in result.error
    assert processes[2].sent == [2], "the next epoch is sent"


def test_an_evaluation_that_hangs_is_given_up_and_the_next_one_gets_a_process(
    trained, evaluator, processes, manual_clock
):
    for checkpoint in trained.saved:
        evaluator.submit(checkpoint)
    manual_clock.seconds += 60.0
    assert evaluator.collect() == [], "the time is not over yet"
    manual_clock.seconds += 0.1
    (result,) = evaluator.collect()
    assert (result.epoch, processes[0].is_dead) == (1, True)
    assert "longer than evaluation.timeout_seconds=60" in result.error
    assert processes[1].sent == [2]
    manual_clock.seconds += 59.0
    assert evaluator.collect() == [], "each has its own time"


def test_a_process_that_cannot_be_started_is_an_error_of_its_checkpoint_only(trained, evaluator, monkeypatch):
    def refuse(directory):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(background, "WorkerProcess", refuse)
    evaluator.submit(trained.saved[0])
    (result,) = evaluator.collect()
    assert result.error == "The evaluation process could not be started: Resource temporarily unavailable."
    assert evaluator.outstanding == 0


@pytest.mark.slow
def test_a_real_process_evaluates_is_replaced_after_a_kill_and_is_gone_at_the_end(trained, evaluator, caplog):
    evaluator.submit(trained.saved[0])
    (first,) = until(evaluator.collect, "an evaluation")
    assert (first.epoch, first.step, first.error) == (1, 32, "")
    assert trained.manager.list_all_checkpoints()[0].score == first.metrics["eval/episodic_return"]
    pid = evaluator.pid
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 10, "it takes what the trainer leaves"
    assert os.getsid(pid) == pid, "a Ctrl-C in the terminal does not reach it"
    os.kill(pid, signal.SIGKILL)
    evaluator.submit(trained.saved[1])
    (second,) = until(evaluator.collect, "another evaluation")
    assert (second.epoch, second.error) == (2, "")
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert [line["epoch"] for line in read_batches(trained.directory)] == [1, 2]
    last = evaluator.pid
    assert last != pid
    evaluator.close()
    assert not Path(f"/proc/{last}").exists()


def test_sending_to_a_process_that_has_died_is_no_error():
    gone = WorkerProcess.__new__(WorkerProcess)
    gone.child = LineChild([sys.executable, "-c", ""])
    gone.child.process.wait()
    gone.send(3)
    assert gone.exit_reason() == "ended with exit code 0"


class FakeRemote:
    """A remote evaluator that responds when the test says so; requests travel as JSON."""

    def __init__(self):
        self.requests, self.responses, self.is_closed = [], [], False

    def submit(self, request, sidecar):
        assert sidecar.exists()
        self.requests.append(request_from_json(request_to_json(request)))

    def collect(self):
        responses, self.responses = self.responses, []
        return responses

    def close(self):
        self.is_closed = True

    def play(self, request):
        reports = [
            EvaluationReport(plan, tuple(EpisodeResult(seed, float(seed), 1, True) for seed in plan.seeds), 0.1)
            for plan in request.plans
        ]
        self.responses.append((request, SuiteReport(tuple(reports), 0.2)))


@pytest.fixture
def saved(bench):
    next(train(bench.state))
    return bench.saver.save(bench.state)


@pytest.fixture
def remote_evaluator(bench):
    remote = FakeRemote()
    evaluation = bench.state.config.evaluation.model_copy(update={"episodes": 3, "seed": 10})
    return remote, RemoteCheckpointEvaluator(remote, bench.directory, evaluation)


def test_a_request_names_the_weights_and_has_the_plans(saved, remote_evaluator):
    remote, evaluator = remote_evaluator
    evaluator.submit(saved)
    (request,) = remote.requests
    assert (request.epoch, request.agent_step, request.weights) == (1, 32, weights_of(saved))
    assert [plan.seeds for plan in request.plans] == [(10, 11, 12)]
    assert evaluator.outstanding == 1


def test_a_remote_report_is_recorded_in_the_run(bench, saved, remote_evaluator):
    remote, evaluator = remote_evaluator
    evaluator.submit(saved)
    assert evaluator.collect() == []
    remote.play(remote.requests[0])
    (result,) = evaluator.collect()
    assert (result.epoch, result.step, result.metrics["eval/episodic_return"]) == (1, 32, 11.0)
    assert evaluator.outstanding == 0
    (line,) = read_batches(bench.directory)
    assert (line["submitted_by"], line["mean"]) == ("remote", 11.0)
    assert bench.manager.list_all_checkpoints()[0].score == 11.0


def test_a_remote_error_is_the_result(saved, remote_evaluator, monkeypatch):
    remote, evaluator = remote_evaluator
    evaluator.submit(saved)
    remote.responses = [(remote.requests[0], "The cluster is away.")]
    assert [result.error for result in evaluator.collect()] == ["The cluster is away."]

    def refuse(request, sidecar):
        raise RunFailed("No cluster answers.")

    monkeypatch.setattr(remote, "submit", refuse)
    evaluator.submit(saved)
    assert [result.error for result in evaluator.collect()] == ["No cluster answers."]
    assert evaluator.outstanding == 0
    evaluator.close()
    assert remote.is_closed


def test_without_ray_an_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(background, "has_service", lambda name, service: False)
    with pytest.raises(MissingExtra, match="evaluate_remote=true needs the extra 'cluster'"):
        require_remote()


def test_a_plugin_provides_the_remote_evaluator(bench, monkeypatch):
    monkeypatch.setattr(background, "has_service", lambda name, service: True)
    monkeypatch.setattr(background, "load_service", lambda name, service: lambda directory: (name, service, directory))
    assert open_remote(bench.directory) == ("ray", "remote_evaluator", bench.directory)


def test_a_checkpoint_with_a_recorded_report_is_not_sent(saved, remote_evaluator):
    remote, evaluator = remote_evaluator
    evaluator.submit(saved)
    remote.play(remote.requests[0])
    first = evaluator.collect()
    evaluator.submit(saved)
    assert len(remote.requests) == 1
    assert evaluator.collect() == first


def test_a_missing_result_is_given_up_in_time_and_a_late_one_is_dropped(bench, saved):
    remote, clock = FakeRemote(), ManualClock()
    clock.seconds = 0.0
    evaluation = bench.state.config.evaluation.model_copy(update={"episodes": 3, "timeout_seconds": 60.0})
    evaluator = RemoteCheckpointEvaluator(remote, bench.directory, evaluation, clock)
    evaluator.submit(saved)
    clock.seconds = 59.0
    assert evaluator.collect() == []
    clock.seconds = 61.0
    (result,) = evaluator.collect()
    assert (result.epoch, result.error) == (1, "No result arrived within evaluation.timeout_seconds=60.")
    assert evaluator.outstanding == 0
    remote.play(remote.requests[0])
    assert evaluator.collect() == []
    assert read_batches(bench.directory) == []
