"""Mostly the part of the render process is played by the test; two stories are told with the real one."""

import os
import signal
import subprocess
import time
from contextlib import closing
from time import monotonic, sleep
from types import SimpleNamespace

import gymnasium
import pytest

from palaestra.rendering import render_client
from palaestra.rendering.env_state import recipe_of
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.rendering.frame_format import Demand, Numbers
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.offscreen import OffscreenRenderer, prepare_rendering
from palaestra.rendering.render_client import (
    IDLE_SECONDS,
    RESEND_SECONDS,
    SHORT_WAIT_SECONDS,
    START_SECONDS,
    STUCK_SECONDS,
    RenderClient,
    Status,
)

SIDE = 640
FIGURES = Numbers(5, 1.0, 2.0, 3)


@pytest.fixture
def cartpole():
    prepare_rendering("rgb_array")
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    yield env
    env.close()


@pytest.fixture
def frame_buffer(tmp_path):
    with FrameBufferOwner(tmp_path / "a.frames", 3, 3 * SIDE**2, 0.0) as owner:
        yield owner


@pytest.fixture
def reader(frame_buffer):
    with closing(FrameReader(frame_buffer.path)) as made:
        yield made


@pytest.fixture
def writer(frame_buffer):
    with closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)) as made:
        yield made


@pytest.fixture
def started(monkeypatch):
    """The processes that were started: each only sleeps."""
    processes, popen = [], subprocess.Popen

    def start(command, **_options):
        processes.append(popen(["sleep", "600"]))
        return processes[-1]

    monkeypatch.setattr(render_client.subprocess, "Popen", start)
    yield processes
    for process in processes:
        assert process.poll() is not None, "a render process was left behind"


@pytest.fixture
def failures():
    return []


@pytest.fixture
def client(frame_buffer, started, failures):  # which checks afterwards whether something was left
    with closing(RenderClient(frame_buffer.path, failures.append)) as made:
        yield made


def received(client):
    return list(iter(client._theirs.receive, None))


def describe(client, env, slot=0):
    return client.can_describe(slot, env, lambda: recipe_of(env))


def make_ready(client, env=None, now=0.0):
    assert client.attend(now, 0) is Status.STARTING
    received(client)
    client._theirs.send({"ready": True})
    assert client.attend(now, 0) is Status.READY
    if env is not None:
        assert describe(client, env)


def test_nothing_is_started_before_there_is_a_viewer(client, started, cartpole):
    assert describe(client, cartpole)
    client.release(monotonic())
    assert (started, client.pid, client.status) == ([], None, Status.IDLE)


def test_a_state_comes_with_the_numbers_of_its_step(client, cartpole, writer):
    make_ready(client, cartpole)
    client.send(0, FIGURES, writer, 0.0)
    [message] = received(client)
    assert (message["slot"], message["numbers"]) == (0, [5, 1.0, 2.0, 3])
    assert message["state"]["set"]["state"].tolist() == list(cartpole.unwrapped.state)
    assert abs(message["at"] - time.time()) < 60


def test_the_next_state_is_due_when_the_last_one_was_rendered_or_lost(client, cartpole, writer):
    make_ready(client, cartpole)
    assert client.is_due(0, writer, 0.0)
    client.send(0, FIGURES, writer, 0.0)
    assert not client.is_due(0, writer, 1.0)
    assert client.is_due(0, writer, RESEND_SECONDS + 1)
    writer.write(0, b"a frame", FIGURES)
    assert client.is_due(0, writer, 1.0)


def test_cheap_frames_wait_a_moment_for_the_process_and_costly_ones_until_it_is_there(client, cartpole, started):
    assert describe(client, cartpole)
    client.attend(100.0, 0)
    assert client.must_wait(100.0)
    assert not client.must_wait(100.0 + SHORT_WAIT_SECONDS + 1)
    client._encoders[0] = SimpleNamespace(is_costly=True, env=cartpole)
    assert client.must_wait(100.0 + SHORT_WAIT_SECONDS + 1)
    assert client.attend(100.0 + START_SECONDS + 1, 0) is Status.FAILED
    assert not client.must_wait(200.0)


def test_where_cores_are_few_only_costly_environments_need_the_process(frame_buffer, cartpole):
    with closing(RenderClient(frame_buffer.path, only_costly=True)) as client:
        describe(client, cartpole)
        assert not client.is_needed
        with closing(gymnasium.make("InvertedPendulum-v5")) as mujoco:
            mujoco.reset(seed=1)
            assert describe(client, mujoco, slot=1)
            assert client.is_needed


def test_elsewhere_all_environments_have_it(client, cartpole):
    describe(client, cartpole)
    assert client.is_needed


def test_an_environment_that_cannot_be_described_is_rendered_here_without_a_word(client, cartpole, started, failures):
    cartpole.unwrapped.friend = object()
    assert not describe(client, cartpole)
    assert client.status is Status.FAILED
    assert "friend" in client.reason
    assert (started, failures) == ([], [])


def test_an_environment_that_becomes_indescribable_is_reported_once(client, cartpole, writer, failures):
    make_ready(client, cartpole)
    cartpole.unwrapped.friend = object()
    client.send(0, FIGURES, writer, 0.0)
    assert client.status is Status.FAILED
    assert len(failures) == 1
    assert "friend" in failures[0]


def test_a_lost_process_is_replaced_once_and_then_reported(client, started, failures):
    for _ in range(2):
        make_ready(client)
        started[-1].kill()
        started[-1].wait()
        client.attend(0.0, 0)
    assert client.status is Status.FAILED
    assert len(started) == 2
    assert failures == ["it was lost 2 times; at last it ended by SIGKILL"]


def test_a_new_render_process_gets_the_complete_state(client, cartpole, writer, started):
    make_ready(client, cartpole)
    client.send(0, FIGURES, writer, 0.0)
    [first] = received(client)
    client.send(0, FIGURES, writer, 0.0)
    started[-1].kill()
    started[-1].wait()
    assert client.attend(0.0, 0) is Status.IDLE
    make_ready(client)
    client.send(0, FIGURES, writer, 0.0)
    [again] = received(client)
    assert again["state"]["set"].keys() == first["state"]["set"].keys()
    assert again["of"] == first["of"] + 1


def test_what_the_render_process_cannot_render_is_rendered_here_and_reported_once(client, failures):
    make_ready(client)
    client._theirs.send({"failed": "RuntimeError: no display"})
    assert [client.attend(0.0, 0), client.status] == [Status.FAILED, Status.FAILED]
    assert failures == ["RuntimeError: no display"]


def test_a_process_that_cannot_be_started_is_done_without(client, monkeypatch, failures):
    def fail(*_given, **_options):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(render_client.subprocess, "Popen", fail)
    assert client.attend(0.0, 0) is Status.FAILED
    assert failures == ["it cannot be started: Resource temporarily unavailable"]


def test_a_process_that_renders_nothing_is_replaced_but_a_long_update_is_not_its_fault(client, started):
    make_ready(client, now=0.0)
    assert client.attend(3 * STUCK_SECONDS, 0) is Status.READY, "nobody stepped meanwhile"
    now = 3 * STUCK_SECONDS
    for count in range(int(STUCK_SECONDS) + 2):
        if client.attend(now + count, 0) is not Status.READY:
            break
    assert count >= STUCK_SECONDS - 3
    assert client.attend(now + 100, 0) is Status.STARTING
    assert len(started) == 2


def test_it_is_ended_when_there_was_no_viewer_for_a_while_and_comes_back(client, started):
    make_ready(client)
    client.release(IDLE_SECONDS - 1)
    assert client.status is Status.READY
    client.release(2 * IDLE_SECONDS)
    assert started[0].poll() == -signal.SIGKILL
    make_ready(client, now=3 * IDLE_SECONDS)


def test_a_forked_process_sends_through_the_same_socket_and_starts_nothing(client, cartpole, writer, started):
    make_ready(client, cartpole)
    pid = os.fork()
    if not pid:
        try:
            client.attend(1e9, 0)
            client.send(0, FIGURES, writer, 0.0)
            client.close()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    [message] = received(client)
    assert message["slot"] == 0
    assert started[0].poll() is None, "closing it there ends nothing here"


def want(reader):
    reader.request(Demand(60.0, 0, frozenset(range(3)), 1, 1), monotonic() + 9)


def until(condition, what):
    deadline = monotonic() + 60
    while not (found := condition()):
        assert monotonic() < deadline, f"waited for {what} in vain"
        sleep(0.005)
    return found


@pytest.mark.slow
def test_a_real_process_renders_what_would_be_rendered_here_and_a_killed_one_leaves_its_last_frame(
    frame_buffer, reader, writer, cartpole
):
    with closing(RenderClient(frame_buffer.path)) as client:
        assert describe(client, cartpole)
        until(lambda: client.attend(monotonic(), writer.total_frames()) is Status.READY, "the render process")
        first = client.pid
        renderer = OffscreenRenderer(cartpole)
        for number in range(3):
            want(reader)
            client.send(0, FIGURES, writer, monotonic())
            frame = until(lambda observed=number: want(reader) or reader.read(0, observed), "a frame")
            assert frame.payload == renderer.render().tobytes()
            assert frame.numbers == FIGURES
            cartpole.step(1)
        assert os.getpriority(os.PRIO_PROCESS, first) == 19
        os.kill(first, signal.SIGKILL)
        until(lambda: client.attend(monotonic(), writer.total_frames()) is not Status.READY, "its end to be noticed")
        assert reader.read(0).sequence == 3
        until(lambda: client.attend(monotonic(), writer.total_frames()) is Status.READY, "another one")
        assert client.pid not in {None, first}
        second = client.pid
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
