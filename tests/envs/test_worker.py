"""What a worker process does with what it is told, without a process."""

import os
import socket

import numpy as np
import pytest

from palaestra.core.errors import NotFound
from palaestra.envs.shared_block import Field, lay_out, new_memory
from palaestra.envs.wire import Kind, Line
from palaestra.envs.worker import AskingTasks, Worker, _tell

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
    Field("seen.", "<f4", (4, 4)),
]


@pytest.fixture
def lines():
    here, there = socket.socketpair()
    with here, there:
        yield Line(here, timeout=5), Line(there, timeout=5)


def test_it_works_on_its_own_rows_of_the_memory_and_tells_what_ended(lines):
    memory = new_memory()
    worker = Worker(lines[0], memory, START)
    arrays = lay_out(memory, FIELDS)
    worker.do(Kind.LAYOUT, {"fields": [[one.name, one.dtype, one.shape] for one in FIELDS], "has_parts": False})
    worker.do(Kind.RESET, [7, 8])
    assert np.all(arrays["seen."][:2] == 0)
    assert np.all(arrays["seen."][2:].any(axis=1))
    assert worker.do(Kind.STEP, None) is None
    ended = worker.do(Kind.STEP, None)
    assert [(one["env_index"], one["length"], one["terminated"]) for one in ended] == [(2, 2, False), (3, 2, False)]
    assert arrays["rewards"].tolist() == [0, 0, 1, 1]
    assert arrays["marks"][:, 0].tolist() == [0, -1]  # it is nowhere between two steps
    os.close(memory)


def test_what_it_is_not_there_for_is_refused(lines):
    worker = Worker(lines[0], -1, START)
    with pytest.raises(ValueError, match="is not asked for"):
        worker.do(Kind.OPTIONS, None)


def test_a_task_is_asked_for_with_what_the_episode_before_came_to(lines):
    here, there = lines
    there.send(Kind.OPTIONS, {"task": "one"})
    there.send(Kind.OPTIONS, {"task": "two"})
    tasks = AskingTasks(here)
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
def test_a_failure_is_told_with_its_words_and_its_traceback(lines, error, told):
    here, there = lines
    try:
        raise error
    except type(error) as caught:
        _tell(here, caught)
    content = there.receive().content
    assert (content["message"], content["hint"]) == told
    assert "test_worker.py" in content["traceback"]
