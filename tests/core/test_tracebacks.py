"""What a person sees of their own error: their frames, their causes, and nothing that a terminal would obey."""

import json

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.config.env import EnvConfig
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.tracebacks import (
    MAX_TEXT,
    describe_error,
    shorten_traceback,
    user_code_failure,
    user_errors_reported,
    with_user_traceback,
)
from palaestra.envs.make import make_env
from palaestra.envs.vector.in_process import InProcessEnvs, scalars


class Looking(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        try:
            return look_up(action)
        except KeyError as error:
            raise ValueError("no such cell") from error


def look_up(key):
    return {}[key]


def failure_of_a_step():
    envs = InProcessEnvs(Looking, 1)
    out = np.zeros((1, 1), np.float32)
    envs.reset([7], out)
    with pytest.raises(RunFailed) as failed:
        envs.step(np.zeros(1, np.int64), out)
    return failed.value


def test_the_users_frames_and_causes_are_shown_and_ours_are_not():
    text = failure_of_a_step().user_traceback
    assert text.startswith("Traceback (most recent call last):")
    assert "in look_up" in text
    assert "KeyError: 0" in text
    assert text.endswith("ValueError: no such cell")
    assert "vector.py" not in text


def test_a_library_that_raised_is_shown_as_the_last_frame_only():
    def forward():
        torch.nn.Sequential(torch.nn.Linear(2, 2))(torch.zeros(3))

    with pytest.raises(RuntimeError) as failed:
        forward()
    lines = shorten_traceback(failed.value).splitlines()
    files = [line for line in lines if line.startswith("  File")]
    assert "in forward" in files[-2]
    assert "site-packages/torch" in files[-1]


def test_where_only_our_own_code_ran_there_is_no_traceback_of_the_user():
    with pytest.raises(AttributeError) as failed:
        scalars(3)
    assert with_user_traceback(RunFailed("it failed"), failed.value).user_traceback == ""
    assert user_code_failure(failed.value) is None


def test_control_characters_are_shown_and_not_sent():
    with pytest.raises(ValueError, match="red") as failed:
        raise ValueError("\x1b[31mred")
    text = shorten_traceback(failed.value)
    assert "\x1b" not in text
    assert r"\x1b[31mred" in text


def test_a_long_text_keeps_its_end():
    with pytest.raises(ValueError, match="xxx") as failed:
        raise ValueError("x" * 100_000 + " and the end")
    assert len(shorten_traceback(failed.value)) < MAX_TEXT + 10
    assert shorten_traceback(failed.value).endswith("and the end")


def test_an_exit_is_described_as_the_call_that_made_it():
    assert describe_error(SystemExit(3), "at step 2") == "called sys.exit(3) at step 2"
    assert describe_error(SystemExit()) == "called sys.exit()"
    assert describe_error(KeyError(3), "at step 2") == "raised KeyError at step 2: 3"
    assert describe_error(AssertionError()) == "raised AssertionError"


def test_a_file_that_python_cannot_read_is_the_users(tmp_path, monkeypatch):
    (tmp_path / "unreadable.py").write_text("def f(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RunFailed, match="Your code raised SyntaxError: invalid syntax .*line 1") as failed:
        with user_errors_reported():
            make_env(EnvConfig(id="unreadable:Any-v0"))
    assert "def f(:" in failed.value.user_traceback
    assert "importlib" not in failed.value.user_traceback


@pytest.mark.parametrize("raised", [KeyError(3), SystemExit(3)])
def test_errors_of_the_user_become_failures_and_others_stay(raised):
    def hook(_):
        raise raised

    with pytest.raises(RunFailed, match=r"Your code (raised KeyError: 3|called sys.exit\(3\)) .*in hook") as failed:
        with user_errors_reported():
            json.loads("{}", object_hook=hook)
    assert failed.value.__cause__ is raised
    with pytest.raises(UsageError), user_errors_reported():
        raise UsageError("ours")
