"""What a worker process does with what it is told, without a process."""

from __future__ import annotations

import os
import socket

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from palaestra.config.env import EnvConfig
from palaestra.core.errors import NotFound, RunFailed
from palaestra.envs.make import make_env
from palaestra.envs.vector.messages import Kind, Line
from palaestra.envs.vector.shared_memory import Field, lay_out, new_memory
from palaestra.envs.vector.worker import RemoteTaskSource, Worker, WorkerRenderer, WorkerShare, _send_failure

START = {
    "env": {"id": "CartPole-v1", "max_episode_steps": 2},
    "curriculum": {},
    "number": 1,
    "first_index": 2,
    "count": 2,
    "has_tasks": False,
}
FIELDS = [
    Field("marks", "<i8", (2, 8)),
    Field("actions", "<i8", (4,)),
    Field("rewards", "<f8", (4,)),
    Field("observations.", "<f4", (4, 4)),
]


@pytest.fixture
def lines():
    here, there = socket.socketpair()
    with here, there:
        yield Line(here, timeout=5), Line(there, timeout=5)


def test_a_worker_uses_its_own_rows_of_the_memory_and_reports_episode_ends(lines):
    memory = new_memory()
    worker = Worker(lines[0], memory, START)
    arrays = lay_out(memory, FIELDS)
    worker.do(Kind.LAYOUT, {"fields": [[one.name, one.dtype, one.shape] for one in FIELDS], "has_parts": False})
    worker.do(Kind.RESET, [7, 8])
    assert np.all(arrays["observations."][:2] == 0)
    assert np.all(arrays["observations."][2:].any(axis=1))
    assert worker.do(Kind.STEP, None) is None
    ended = worker.do(Kind.STEP, None)
    assert [(one["env_index"], one["length"], one["terminated"]) for one in ended] == [(2, 2, False), (3, 2, False)]
    assert arrays["rewards"].tolist() == [0, 0, 1, 1]
    assert arrays["marks"][:, 0].tolist() == [0, -1]  # it is nowhere between two steps
    os.close(memory)


def test_what_it_is_not_there_for_is_refused(lines):
    worker = Worker(lines[0], -1, START)
    with pytest.raises(ValueError, match="a worker has no message"):
        worker.do(Kind.OPTIONS, None)


def test_a_task_is_requested_with_the_return_of_the_previous_episode(lines):
    here, there = lines
    there.send(Kind.OPTIONS, {"task": "one"})
    there.send(Kind.OPTIONS, {"task": "two"})
    tasks = RemoteTaskSource(here)
    assert tasks.next_options(3) == {"task": "one"}
    tasks.ended(3, 1.5)
    assert tasks.next_options(3) == {"task": "two"}
    assert [there.receive().content for _ in range(2)] == [
        {"env_index": 3, "ended": None},
        {"env_index": 3, "ended": 1.5},
    ]


@pytest.mark.parametrize(
    ("error", "told"),
    [(NotFound("No env.", "Try one."), ("No env.", "Try one.")), (KeyError("oh"), ("KeyError: 'oh'.", ""))],
)
def test_a_failure_is_sent_with_its_message_and_traceback(lines, error, told):
    here, there = lines
    try:
        raise error
    except type(error) as caught:
        _send_failure(here, caught)
    content = there.receive().content
    assert (content["message"], content["hint"]) == told
    assert "test_worker.py" in content["traceback"]


class Reporting(gymnasium.Env):
    """Calls `hear` with its name whenever it is reset or stepped."""

    observation_space = action_space = spaces.Discrete(9)

    def __init__(self, hear) -> None:
        self.hear, self.taken = hear, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = 0
        self.hear("reset")
        return 0, {}

    def step(self, action):
        self.taken += 1
        self.hear("step")
        return 0, 0.0, self.taken == 2, False, {}


def test_every_step_and_reset_finds_its_environment_and_step_marked():
    received, out = [], np.zeros(2, np.int64)
    share = WorkerShare(
        lambda: Reporting(lambda what: received.append((what, *share.mark.tolist()))), 2, None, first_index=5
    )
    share.reset([1, 2], out)
    for _ in range(2):
        share.step(np.zeros(2, np.int64), out)
    assert received == [
        *[("reset", 5, 0), ("reset", 6, 0)],
        *[("step", 5, 1), ("step", 6, 1)],
        *[("step", 5, 2), ("reset", 5, 0), ("step", 6, 2), ("reset", 6, 0)],
    ]


def test_endings_and_failures_have_the_index_that_everybody_knows():
    def hear(what):
        if share.mark.tolist() == [6, 2]:
            raise KeyError("oh")

    out = np.zeros(2, np.int64)
    share = WorkerShare(lambda: Reporting(hear), 2, None, first_index=5)
    share.reset([1, 2], out)
    share.step(np.zeros(2, np.int64), out)
    with pytest.raises(RunFailed, match=r"Environment 6 \(seed 2\) raised KeyError at step 2"):
        share.step(np.zeros(2, np.int64), out)


def test_an_environment_that_cannot_begin_is_named():
    def hear(what):
        if share.mark[0] == 6:
            raise KeyError("oh")

    share = WorkerShare(lambda: Reporting(hear), 2, None, first_index=5)
    with pytest.raises(RunFailed, match=r"Environment 6 \(seed 2\) raised KeyError when it began"):
        share.reset([1, 2], np.zeros(2, np.int64))


def studio(monkeypatch, request, **kwargs):
    monkeypatch.syspath_prepend(str(request.path.parent))
    share = WorkerShare(lambda: make_env(EnvConfig(id="odd_envs:Odd-v0", kwargs=kwargs)), 2, None, first_index=4)
    out = np.zeros((2, 2), np.float32)
    share.reset([10, 20], out)
    share.step(np.array([3, 4]), out)
    return WorkerRenderer(share)


def test_an_environment_is_rendered_with_the_numbers_of_its_episode(monkeypatch, request):
    drawn = studio(monkeypatch, request).render(5)
    assert drawn["image"].shape == (8, 6, 3)
    assert np.all(drawn["image"] == 21)  # its seed and its step
    assert (drawn["total_reward"], drawn["length"]) == (4.0, 1)


def test_a_rendering_error_is_returned_and_not_raised(monkeypatch, request):
    assert studio(monkeypatch, request, what="blind").render(4) == {"failure": "RuntimeError: nothing to see"}
