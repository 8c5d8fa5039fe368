"""Environments in several processes: the same numbers as in one, and clear words when one of them goes wrong."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.core.errors import RunFailed, UsageError
from palaestra.envs.build import make_vector_envs
from palaestra.envs.frame_sources import frame_source
from palaestra.envs.vector import workers
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.messages import Kind
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.envs.vector.shared_memory import new_memory
from palaestra.envs.vector.workers import InWorker, WorkerEnvs, WorkerProcess
from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import LiveView
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
        worker.reply()
    assert isinstance(failed.value.__cause__, InWorker)
    assert "Traceback" in str(failed.value.__cause__)
    with pytest.raises(RunFailed, match="ended with exit code 1 while it made its environments"):
        worker.reply()
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
        worker.reply()
    assert process_started_at(worker.pid) is None
    os.close(memory)


NO_TASKS = CurriculumConfig()
HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def odd_envs_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


def opened(count, seeds, out, tasks=None, curriculum=NO_TASKS, **config):
    envs = make_vector_envs(EnvConfig(**config), curriculum, count, tasks)
    envs.reset(seeds, out)
    return envs


def odd(workers=1, count=4, **kwargs):
    """Seeds are 10, 20, …; with one worker it has the upper half."""
    config = {"id": "odd_envs:Odd-v0", "kwargs": kwargs, "workers": workers}
    out = np.zeros((count, 2), np.float32)
    return opened(count, [10 * (index + 1) for index in range(count)], out, **config), out


def gone(pid):
    return process_started_at(pid) is None


def in_memory():
    return set(Path("/dev/shm").iterdir()) if Path("/dev/shm").exists() else set()


def eventually(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def played(envs, steps, out, actions):
    observed = []
    for step in range(steps):
        result = envs.step(actions[step], out)
        finals = [(end.final_observation.tolist(), end.final_observation.dtype) for end in result.endings]
        observed.append((out.copy().tolist(), list(result.rewards), finals, [end.episode for end in result.endings]))
    return observed


@pytest.mark.parametrize("env_id", ["CartPole-v1", pytest.param("Pendulum-v1", marks=pytest.mark.full)])
def test_the_same_seeds_give_the_same_bits_however_many_processes_step(env_id):
    chance = np.random.default_rng(3)
    is_box = env_id.startswith("Pendulum")
    actions = chance.normal(scale=2, size=(40, 5, 1)).astype(np.float32) if is_box else chance.integers(2, size=(40, 5))
    stories = []
    for worker_count in (0, 1) if is_box else (0, 1, 2):
        out = np.zeros((5, 3 if is_box else 4), np.float32)
        envs = opened(5, [1, 2, 3, 4, 5], out, id=env_id, max_episode_steps=15, workers=worker_count)
        assert isinstance(envs, WorkerEnvs if worker_count else InProcessEnvs)
        stories.append([out.tolist(), played(envs, 40, out, actions)])
        envs.close()
    assert all(story == stories[0] for story in stories)
    ends = [end.env_index for *_, episodes in stories[0][1] for end in episodes]
    assert set(ends) == {0, 1, 2, 3, 4}


@pytest.fixture(scope="module")
def calm():
    """Six environments in three processes, in which nothing goes wrong; reset by who needs them fresh."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        envs, out = odd(workers=2, count=6)
    yield envs, out
    envs.close()


def test_workers_are_processes_and_this_one_steps_too(calm):
    envs, out = calm
    endings = [end for _ in range(3) for end in envs.step(np.zeros(6, np.int64), out).endings]
    pids = [end.episode.extras["pid"] for end in sorted(endings, key=lambda end: end.env_index)]
    assert pids == [os.getpid()] * 2 + [worker.pid for worker in envs.workers for _ in range(2)]
    assert len(set(pids)) == 3


@pytest.mark.fault("R4", "E5")
def test_interrupts_are_for_the_process_that_trains(calm):
    envs, out = calm
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(envs.workers[0].pid, number)
    assert envs.step(np.array([0, 1, 2, 3, 4, 0]), out).rewards == [0.0, 1.0, 2.0, 3.0, 4.0, 0.0]


def test_every_environment_is_rendered_in_its_process_and_keeps_its_tile(calm):
    envs, out = calm
    envs.reset([1, 2, 3, 4, 5, 6], out)
    source = frame_source(envs)
    assert source.count == 6
    first = [source.view(tile) for tile in range(6)]
    source.last = envs.step(np.array([0, 1, 2, 3, 4, 0]), out)
    later = [source.view(tile) for tile in range(6)]
    assert [int(view.content[0, 0, 0]) for view in first] == [1, 2, 3, 4, 5, 6]  # its seed and its step
    assert [int(view.content[0, 0, 0]) for view in later] == [2, 3, 4, 5, 6, 7]
    assert [(view.numbers.reward, view.numbers.length) for view in first] == [(0.0, 0)] * 6
    assert [(view.numbers.reward, view.numbers.total_reward, view.numbers.length) for view in later][3:] == [
        *[(3.0, 3.0, 1), (4.0, 4.0, 1), (0.0, 0.0, 1)]
    ]


def test_a_viewer_finds_every_environment_in_its_slot(calm, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    envs, out = calm
    envs.reset([1, 2, 3, 4, 5, 6], out)
    with ExitStack() as stack:
        lane = stack.enter_context(FrameBufferOwner(frame_buffer_path("RUN"), 6, 64 * 64 * 3, 1.0))
        writer = stack.enter_context(closing(FrameWriter(lane.descriptor, lane.about)))
        reader = stack.enter_context(closing(FrameReader(lane.path)))
        watched = PublishedEnvs(envs, frame_source(envs), LiveView(writer, 1.0, 64), 0, 6)
        frames = {}

        def all_are_shown():
            """One look may show a few only: pictures have a budget."""
            reader.request(Demand(60.0, 0, frozenset(range(6)), 1, 1), time.monotonic() + 2)
            watched.step(np.array([0, 1, 2, 3, 4, 0]), out)
            frames.update({slot: frame for slot in range(6) if (frame := reader.read(slot)) is not None})
            return len(frames) == 6

        eventually(all_are_shown)
    seeds = {slot: frame.payload[0] - frame.numbers.length for slot, frame in frames.items()}
    assert seeds == {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6}


def test_a_state_goes_from_workers_to_one_process_and_back():
    actions = np.random.default_rng(4).integers(2, size=(60, 4))
    config = {"id": "CartPole-v1", "max_episode_steps": 12}
    out, other_out = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32)
    envs = opened(4, [1, 2, 3, 4], out, workers=1, **config)
    played(envs, 8, out, actions)
    state = envs.capture()
    expected = played(envs, 30, out, actions)
    alone = opened(4, [6, 7, 8, 9], other_out, **config)
    alone.restore(state)
    assert alone.capture() == state
    assert played(alone, 30, other_out, actions) == expected
    envs.restore(state)
    assert played(envs, 30, out, actions) == expected
    envs.close()


@pytest.mark.fault("E1")
def test_an_environment_that_raises_in_a_worker_is_named_with_its_traceback():
    envs, out = odd(culprit=40, what="raise")
    envs.step(np.array([0, 1, 2, 4]), out)
    with pytest.raises(RunFailed) as failed:
        envs.step(np.array([0, 1, 2, 4]), out)
    assert "ZeroDivisionError at step 2 of its episode, with action 4" in str(failed.value)
    assert "misbehave" in str(failed.value.__cause__)
    assert "in misbehave" in failed.value.user_traceback
    assert "palaestra/envs" not in failed.value.user_traceback
    assert "Environment 3 (seed 40)" in str(failed.value)
    with pytest.raises(RunFailed, match="Environment 3"):  # whoever asks again gets the same answer
        envs.step(np.array([0, 1, 2, 4]), out)


@pytest.mark.fault("E6")
@pytest.mark.full
def test_a_worker_without_memory_says_so_by_name():
    envs, out = odd(culprit=40, what="memory")
    envs.step(np.array([0, 1, 2, 4]), out)
    with pytest.raises(RunFailed, match=r"Environment 3 \(seed 40\) raised MemoryError at step 2"):
        envs.step(np.array([0, 1, 2, 4]), out)


@pytest.mark.fault("E2")
def test_a_worker_that_hangs_is_named_within_its_timeout_and_ended():
    envs, out = odd(culprit=30, what="hang")
    [worker] = envs.workers
    envs.step(np.array([0, 1, 3, 4]), out)
    worker._line._timeout = 0.5  # to start may take long on a loaded machine, to hang need not
    with pytest.raises(RunFailed) as failed:
        envs.step(np.array([0, 1, 3, 4]), out)
    text = str(failed.value)
    assert "has not answered" in text
    assert "environment 2 (seed 30) was at step 2 of its episode, with action 3" in text
    assert "env.worker_timeout" in text
    assert gone(worker.pid)


@pytest.mark.fault("E3")
@pytest.mark.parametrize(("what", "words"), [("die", "was ended by SIGKILL"), ("exit", "ended with exit code 7")])
def test_a_worker_that_ends_is_named_with_how_and_where(what, words):
    envs, out = odd(culprit=40, what=what)
    envs.step(np.array([0, 1, 2, 3]), out)
    with pytest.raises(RunFailed) as failed:
        envs.step(np.array([0, 1, 2, 3]), out)
    text = str(failed.value)
    assert words in text
    assert "environment 3 (seed 40) was at step 2 of its episode, with action 3" in text


def test_an_exit_that_python_can_see_is_named_as_the_call_it_is():
    envs, out = odd(culprit=40, what="sys.exit")
    envs.step(np.array([0, 1, 2, 3]), out)
    with pytest.raises(RunFailed, match=r"Environment 3 \(seed 40\) called sys.exit\(7\) at step 2"):
        envs.step(np.array([0, 1, 2, 3]), out)


def test_a_rendering_error_is_reported_and_stepping_continues_until_the_worker_is_killed():
    envs, out = odd(what="blind")
    [worker] = envs.workers
    with pytest.raises(RunFailed, match="Environment 3 cannot be rendered: RuntimeError: nothing to see"):
        frame_source(envs).view(3)
    envs.step(np.zeros(4, np.int64), out)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(RunFailed, match="SIGKILL between two steps"):
        envs.step(np.zeros(4, np.int64), out)


@pytest.mark.fault("E5")
def test_what_an_environment_prints_goes_to_the_log_and_disturbs_nothing(capfd):
    envs, out = odd(culprit=40, what="print")
    for _ in range(3):
        envs.step(np.array([0, 1, 2, 3]), out)
    envs.close()
    reported, reports = capfd.readouterr()
    assert "SAID BY" not in reported
    assert "SAID BY AN ENVIRONMENT" in reports
    assert "AND TO THE DESCRIPTOR" in reports
    assert out[3].tolist() == [40, 0]


def test_workers_end_when_their_environments_are_garbage_collected():
    envs, _ = odd(count=2)
    pids = [worker.pid for worker in envs.workers]
    assert not any(gone(pid) for pid in pids)
    del envs
    gc.collect()
    assert all(gone(pid) for pid in pids)


DOOMED = """
import json, sys, numpy as np
from palaestra.config.env import CurriculumConfig
from palaestra.config.env import EnvConfig
from palaestra.envs.build import make_vector_envs
config = EnvConfig(id="odd_envs:Odd-v0", kwargs={"culprit": 30, "what": "hang"}, workers=2)
envs = make_vector_envs(config, CurriculumConfig(), 3)
out = np.zeros((3, 2), np.float32)
envs.reset([10, 20, 30], out)
print(json.dumps([worker.pid for worker in envs.workers]), flush=True)
while True:
    envs.step(np.zeros(3, np.int64), out)
"""


@pytest.mark.fault("E7")
def test_after_a_kill_of_the_parent_no_worker_and_no_memory_is_left():
    """One of the workers hangs in a step, the other waits."""
    before = in_memory()
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)])}
    with subprocess.Popen([sys.executable, "-c", DOOMED], stdout=subprocess.PIPE, env=variables) as parent:
        pids = json.loads(parent.stdout.readline())
        parent.kill()
    eventually(lambda: all(gone(pid) for pid in pids))
    assert {path.name for path in in_memory() - before if "envs" in path.name} == set()


@pytest.mark.full
def test_an_environment_that_only_this_program_knows_is_refused_with_the_way():
    class Local(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

    gymnasium.register("OnlyHere-v0", entry_point=Local)
    try:
        with pytest.raises(UsageError) as refused:
            make_vector_envs(EnvConfig(id="OnlyHere-v0", workers=1), NO_TASKS, 2)
    finally:
        del gymnasium.registry["OnlyHere-v0"]
    assert "worker process cannot make 'OnlyHere-v0'" in refused.value.message
    assert "env.id=module:Env-v0" in refused.value.hint


def test_a_setting_that_cannot_be_serialized_is_refused():
    config = EnvConfig(id="odd_envs:Odd-v0", kwargs={"what": object()}, workers=1)
    with pytest.raises(UsageError, match="cannot be sent to a worker"):
        make_vector_envs(config, NO_TASKS, 2)


class Diary:
    """A TaskSource that writes down what it is asked, and gives a task by that."""

    def __init__(self, names):
        self.names, self.asked = names, []

    def next_options(self, env_index):
        self.asked.append(("next", env_index))
        return {"task": self.names[len(self.asked) % len(self.names)]}

    def ended(self, env_index, total_reward):
        self.asked.append(("ended", env_index, total_reward))


def test_tasks_are_requested_in_the_same_order_as_in_one_process():
    tasks = {"short": {"kwargs": {"length": 2}}, "long": {"kwargs": {"length": 5}}}
    curriculum = CurriculumConfig(tasks=tasks)
    actions = np.random.default_rng(5).integers(5, size=(14, 5))
    stories = []
    for worker_count in (0, 2):
        diary, out = Diary(list(tasks)), np.zeros((5, 2), np.float32)
        envs = opened(5, [1, 2, 3, 4, 5], out, diary, curriculum, id="odd_envs:Odd-v0", workers=worker_count)
        rewards = [envs.step(row, out).rewards for row in actions]
        stories.append((diary.asked, rewards, out.tolist(), envs.capture()))
        envs.close()
    assert stories[0] == stories[1]
    assert len({entry[1] for entry in stories[0][0]}) == 5


def test_a_failed_memory_allocation_is_reported(monkeypatch):
    def full(descriptor, fields):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workers, "lay_out", full)
    with pytest.raises(RunFailed, match="cannot be allocated: No space left") as failed:
        odd()
    assert "env.workers=0" in failed.value.hint


def test_a_process_that_cannot_be_started_is_reported(monkeypatch):
    def refused(*words, **more):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(RunFailed, match="cannot be started: Resource temporarily unavailable"):
        odd()


def test_a_fork_does_not_end_the_workers(calm):
    envs, out = calm
    child = os.fork()
    if not child:
        envs._ending()  # as at the end of a Python process
        os._exit(0)
    os.waitpid(child, 0)
    assert len(envs.step(np.zeros(6, np.int64), out).rewards) == 6


@pytest.mark.full
def test_observations_with_parts_come_through_whole():
    """Blackjack shows a tuple of three."""
    actions, stories = np.random.default_rng(6).integers(2, size=(30, 4)), []
    for worker_count in (0, 1):
        out = {name: np.zeros(4, np.int64) for name in "012"}
        envs = opened(4, [1, 2, 3, 4], out, id="Blackjack-v1", workers=worker_count)
        story = []
        for row in actions:
            result = envs.step(row, out)
            finals = [{name: int(part) for name, part in end.final_observation.items()} for end in result.endings]
            story.append(({name: part.tolist() for name, part in out.items()}, list(result.rewards), finals))
        stories.append(story)
        envs.close()
    assert stories[0] == stories[1]
    assert any(finals for *_, finals in stories[0])


def test_a_worker_that_starts_too_slowly_is_not_reported_as_an_unknown_environment():
    with pytest.raises(RunFailed, match="has not answered for 0.001 s, while it made its environments"):
        make_vector_envs(EnvConfig(id="CartPole-v1", workers=1, worker_timeout=0.001), NO_TASKS, 2)
