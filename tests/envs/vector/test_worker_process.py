"""One worker process, seen from the one that started it. Most of its stories are in test_workers.py."""

from __future__ import annotations

import os

import numpy as np
import pytest

from palaestra.core.errors import RunFailed
from palaestra.envs.vector.messages import Kind
from palaestra.envs.vector.shared_memory import new_memory
from palaestra.envs.vector.worker_process import InWorker, WorkerProcess
from palaestra.runs.processes import process_started_at


@pytest.fixture
def worker():
    memory = new_memory()
    start = {"number": 0, "first_index": 1, "count": 1, "has_tasks": False, "curriculum": {}}
    worker = WorkerProcess({**start, "env": {"id": "NoSuchThing-v0"}}, memory, timeout=60)
    yield worker
    worker.request_close()
    worker.end()
    os.close(memory)


def test_a_workers_error_is_raised_with_its_message_and_ends_the_process(worker):
    with pytest.raises(RunFailed, match="No environment named 'NoSuchThing-v0'") as failed:
        worker.answer()
    assert isinstance(failed.value.__cause__, InWorker)
    assert "Traceback" in str(failed.value.__cause__)
    with pytest.raises(RunFailed, match="ended with exit code 1 while it made its environments"):
        worker.answer()
    assert process_started_at(worker.pid) is None
    worker.ask(Kind.STEP)  # to nobody: the next answer would say so


def test_where_it_was_is_read_from_the_mark(worker):
    worker.mark, worker.actions = np.array([1, 0]), np.array([[0.5], [0.25]])
    worker.seeds = [10, 20]
    assert worker._where() == "while environment 1 (seed 20) began an episode"
    worker.mark[1] = 3
    assert worker._where() == "while environment 1 (seed 20) was at step 3 of its episode, with action [0.25]"
    worker.mark[0] = -1
    assert worker._where() == "between two steps"


def test_one_that_does_not_come_up_in_time_is_named_and_ended():
    memory = new_memory()
    start = {"number": 4, "first_index": 1, "count": 1, "has_tasks": False, "curriculum": {}, "env": {"id": "x"}}
    worker = WorkerProcess(start, memory, timeout=0.001)
    with pytest.raises(RunFailed, match=r"Worker process 4 \(pid \d+\) has not answered for 0.001 s, while it made"):
        worker.answer()
    assert process_started_at(worker.pid) is None
    os.close(memory)
