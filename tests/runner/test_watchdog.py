"""A step that never ends is noticed, named and interrupted; time in which nobody ran is not counted."""

import signal
import time

import gymnasium
import numpy as np
import pytest

from palaestra.core.errors import RunFailed
from palaestra.core.run import RunRequest, RunState
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.runner import watchdog as watchdog_module
from palaestra.runner.job import TrainingJob
from palaestra.runner.train import run_training
from palaestra.runner.watchdog import Watchdog
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore


class Slow(gymnasium.Env):
    """Does `work` in every step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, work) -> None:
        self.work = work

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.work()
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Gone(Exception):
    """Instead of the end of the process."""


class PaperAbort:
    def fail(self, failure, stack):
        raise Gone(failure, stack)


def step_while(clock, checks, seconds, timeout=60.0, count=1):
    """Steps in each of which `checks` checks are made, `seconds` apart."""
    watchdog = Watchdog(timeout, PaperAbort(), clock.monotonic)

    def work():
        for _ in range(checks):
            clock.seconds += seconds
            watchdog.check()

    envs, out = InProcessEnvs(lambda: Slow(work), count), np.zeros((count, 1), np.float32)
    envs.reset(list(range(count)), out)
    envs.step(np.zeros(count, np.int64), out)


def test_a_step_that_takes_longer_than_allowed_is_given_up_with_its_position_and_stack(clock):
    with pytest.raises(RunFailed) as failed:
        step_while(clock, checks=63, seconds=1.0)
    failure, stack = failed.value.__cause__.args
    assert failure.message == (
        "A step has not returned for 60 s: environment 0 (seed 0), at step 1 of its episode, with action 0."
    )
    assert "env.step_timeout" in failure.hint
    assert "in work" in failure.user_traceback
    assert "in_process.py" not in failure.user_traceback
    assert "in_process.py" in stack


def test_shorter_steps_are_never_added_up(clock):
    step_while(clock, checks=40, seconds=1.0, count=5)


def test_time_in_which_the_process_was_stopped_is_not_counted(clock):
    step_while(clock, checks=20, seconds=3600.0)


def test_without_a_limit_any_step_may_go_on(clock):
    step_while(clock, checks=2000, seconds=1.0, timeout=0)


@pytest.fixture
def train(tmp_path, small_config, monkeypatch):
    """Train in an environment whose steps do `work`, with a watchdog that checks often."""
    monkeypatch.setattr(watchdog_module, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(watchdog_module, "STOP_SECONDS", 0.2)

    def start(work, **env):
        monkeypatch.setitem(
            gymnasium.registry,
            "Slow-v0",
            gymnasium.envs.registration.EnvSpec("Slow-v0", entry_point=lambda: Slow(work)),
        )
        request = RunRequest(kind="native", recipe="", config={}, name="slow")
        return run_training(TrainingJob(request, small_config(env={"id": "Slow-v0", **env}), tmp_path, quiet=True))

    return start


@pytest.mark.fault("E2")
def test_a_step_that_sleeps_for_ever_fails_the_run(train, tmp_path):
    with pytest.raises(RunFailed, match="A step has not returned for .* environment 0 ") as failed:
        train(lambda: time.sleep(3600), step_timeout=0.2)
    assert "time.sleep(3600)" in failed.value.user_traceback
    record = read_record(RunStore(tmp_path).named("slow"))
    assert (record.state, record.exit_code) == (RunState.FAILED, 1)
    assert "has not returned" in record.failure


def test_a_signal_in_a_step_that_hangs_cancels_the_run(train, tmp_path):
    def hang():
        signal.raise_signal(signal.SIGTERM)
        while True:
            try:
                time.sleep(3600)
            except Exception:  # noqa: BLE001  as careless environments do
                continue

    outcome = train(hang)
    assert (outcome.exit_code, outcome.record.state) == (143, RunState.CANCELLED)
    last = read_journal(RunStore(tmp_path).named("slow").journal_file)[-1]
    assert last.event == "run.cancelled"
    assert "SIGTERM came in a step that has not returned" in last.data["reason"]
    assert "environment 0" in last.data["reason"]
