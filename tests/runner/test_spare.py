"""The spare process, real: what it says, what happens when it is killed, and that none is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from palaestra.evaluation.summary import read_batches
from palaestra.runner import spare
from palaestra.runner.spare import SpareEvaluator, SpareProcess
from palaestra.training.trainer import train

PATIENCE_SECONDS = 120.0


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"waited in vain for {what}")


@pytest.fixture
def trained(make_bench, small_config):
    bench = make_bench(small_config(total_steps=64, evaluation={"episodes": 3}))
    bench.saved = [bench.saver.save(bench.state) for _ in train(bench.state)]
    return bench


class Watch:
    """A clock that stands until it is moved."""

    seconds = 100.0

    def now(self):
        return 0.0

    def monotonic(self):
        return self.seconds


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def evaluator(trained, watch):
    made = SpareEvaluator(trained.directory, 60.0, watch)
    yield made
    made.close()


class Puppet:
    """Stands in for the process: says what it is told to say, dies when it is told to die."""

    def __init__(self):
        self.told, self.says, self.is_dead = [], [], False

    def tell(self, epoch):
        self.told.append(epoch)

    def hear(self):
        if self.is_dead:
            raise EOFError
        return self.says.pop(0) if self.says else None

    def fate(self):
        return "was ended by SIGKILL"

    def end(self):
        self.is_dead = True


@pytest.fixture
def puppets(monkeypatch):
    made = []

    def make(directory):
        made.append(Puppet())
        return made[-1]

    monkeypatch.setattr(spare, "SpareProcess", make)
    return made


def test_epochs_are_told_one_at_a_time_and_in_order(trained, evaluator, puppets):
    for checkpoint in trained.saved:
        evaluator.ask(checkpoint)
    (process,) = puppets
    assert (process.told, evaluator.outstanding) == ([1], 2)
    assert evaluator.collect() == []
    process.says = [{"epoch": 1, "step": 32, "metrics": {"eval/episodic_return": 2.0}, "timings": {}}]
    (verdict,) = evaluator.collect()
    assert (verdict.epoch, verdict.step, verdict.metrics) == (1, 32, {"eval/episodic_return": 2.0})
    assert (process.told, evaluator.outstanding) == ([1, 2], 1)


@pytest.mark.fault("R10")
def test_a_process_that_is_lost_is_replaced_once_and_then_its_epoch_is_given_up(trained, evaluator, puppets, caplog):
    for checkpoint in trained.saved:
        evaluator.ask(checkpoint)
    puppets[0].is_dead = True
    assert evaluator.collect() == []
    assert puppets[1].told == [1]
    assert [record.getMessage() for record in caplog.records] == [
        "The process that judges checkpoints was ended by SIGKILL at epoch 1; another tries again. Training goes on."
    ]
    puppets[1].is_dead = True
    (verdict,) = evaluator.collect()
    assert verdict.epoch == 1
    assert "was ended by SIGKILL, 2 times" in verdict.error
    assert puppets[2].told == [2], "the next one gets its chance"


def test_a_judgement_that_hangs_is_given_up_in_time_and_the_next_one_gets_a_process(trained, evaluator, puppets, watch):
    for checkpoint in trained.saved:
        evaluator.ask(checkpoint)
    watch.seconds += 60.0
    assert evaluator.collect() == [], "the time is not over yet"
    watch.seconds += 0.1
    (verdict,) = evaluator.collect()
    assert (verdict.epoch, puppets[0].is_dead) == (1, True)
    assert "longer than evaluation.timeout_seconds=60" in verdict.error
    assert puppets[1].told == [2]
    watch.seconds += 59.0
    assert evaluator.collect() == [], "each has its own time"


def test_a_process_that_cannot_be_started_costs_a_verdict_and_not_the_training(trained, evaluator, monkeypatch):
    def refuse(directory):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(spare, "SpareProcess", refuse)
    evaluator.ask(trained.saved[0])
    (verdict,) = evaluator.collect()
    assert verdict.error == "No process to judge it could be started: Resource temporarily unavailable."
    assert evaluator.outstanding == 0


@pytest.mark.slow
def test_a_real_process_judges_survives_a_kill_and_is_gone_at_the_end(trained, evaluator, caplog):
    evaluator.ask(trained.saved[0])
    (first,) = until(evaluator.collect, "a judgement")
    assert (first.epoch, first.step, first.error) == (1, 32, "")
    assert trained.manager.list_all_checkpoints()[0].score == first.metrics["eval/episodic_return"]
    pid = evaluator.pid
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 10, "it takes what the trainer leaves"
    assert os.getsid(pid) == pid, "a Ctrl-C in the terminal does not reach it"
    os.kill(pid, signal.SIGKILL)
    evaluator.ask(trained.saved[1])
    (second,) = until(evaluator.collect, "another judgement")
    assert (second.epoch, second.error) == (2, "")
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert [line["epoch"] for line in read_batches(trained.directory)] == [1, 2]
    last = evaluator.pid
    assert last != pid
    evaluator.close()
    assert not Path(f"/proc/{last}").exists()


def test_one_that_died_before_it_was_told_can_be_told_and_then_ended():
    """What it never read stays in the pipe's buffer, and closing the pipe tries to write it once more."""
    answers, told = os.pipe()
    os.close(told)
    gone = SpareProcess.__new__(SpareProcess)
    gone.answers = answers
    gone.process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    gone.process.wait()
    gone.tell(3)
    assert gone.fate() == "ended with exit code 0"
