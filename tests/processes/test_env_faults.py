"""Environments in the process that trains which exit, print or hang, from the shell."""

import json
import signal

import pytest

from palaestra.core.run import RunState
from palaestra.runs.status import read_record

pytestmark = pytest.mark.slow

WORDS = ("train", "env.id=faulty_env:Faulty-v0", "ppo.env_count=2", "ppo.horizon=16", "ppo.minibatch_size=16")


@pytest.fixture
def train(palaestra, beside_the_tests):
    def start(how, *more):
        arguments = [*WORDS, "run=faulty", "total_steps=256", f"env.kwargs={{rank: 0, at: 20, how: {how}}}", *more]
        return palaestra(*arguments, "--json", variables={"PYTHONPATH": beside_the_tests})

    return start


def test_os_exit_with_0_is_a_failure_that_names_its_position(train, palaestra):
    done = train("exit as if done")
    assert (done.code, done.out) == (1, "")
    assert "faulty_env.py" in done.err
    assert "palaestra: os._exit(0) was called in environment 0 (seed " in done.err
    record = read_record(palaestra.run("faulty"))
    assert (record.state, record.exit_code) == (RunState.FAILED, 1)
    assert "os._exit(0)" in record.failure


def test_what_an_environment_prints_is_not_in_the_json(train):
    done = train("print")
    assert done.code == 0
    assert json.loads(done.out)["state"] == "finished"
    assert "the cart squeaks" in done.err


@pytest.mark.full
def test_a_step_that_swallows_every_exception_is_ended_with_the_process(train, palaestra):
    done = train("hang for good", "env.step_timeout=1")
    assert done.code == 1
    assert "palaestra: A step has not returned for " in done.err
    assert "faulty_env.py" in done.err
    assert read_record(palaestra.run("faulty")).state is RunState.FAILED


def test_a_step_that_hangs_with_the_global_lock_ends_the_process_and_shows_where(train, palaestra):
    pytest.importorskip("palaestra.runner.lock_watch", reason="no compiler has been here")
    done = train("hang with the lock", "env.step_timeout=1")
    assert (done.code, done.out) == (-signal.SIGABRT, "")
    assert "palaestra: No Python code has run for 6 s" in done.err
    assert "faulty_env.py" in done.err
    assert read_record(palaestra.run("faulty")).state is not RunState.FINISHED
