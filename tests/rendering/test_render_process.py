import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import gymnasium
import numpy as np
import pytest

from palaestra.rendering import render_process
from palaestra.rendering.env_state import StateEncoder, recipe_of
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.messages import PeerClosed, socket_pair
from palaestra.rendering.offscreen import OffscreenRenderer, prepare_rendering
from palaestra.rendering.render_process import (
    ParentGone,
    States,
    largest_side_of,
    main,
    render_all,
    rendering_share,
    rest_seconds,
)

SIDE = 640


@pytest.fixture
def frame_buffer(tmp_path):
    with FrameBufferOwner(tmp_path / "a.frames", 3, 3 * SIDE**2, 0.0) as owner:
        yield owner


@pytest.fixture
def reader(frame_buffer):
    with closing(FrameReader(frame_buffer.path)) as made:
        yield made


@pytest.fixture
def ends():
    ours, theirs = socket_pair()
    with closing(ours), closing(theirs):
        yield ours, theirs


@pytest.fixture
def cartpole():
    prepare_rendering("rgb_array")
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    yield env
    env.close()


def message(encoder, slot=0, session=1, step=5):
    return {"of": session, "slot": slot, "at": 7.5, "numbers": (step, 1.0, 2.0, 3), "state": encoder.encode()}


def until(condition, what):
    deadline = monotonic() + 60
    while not (found := condition()):
        assert monotonic() < deadline, f"waited for {what} in vain"
        sleep(0.005)
    return found


def test_of_each_slot_the_newest_state_is_next_and_changes_are_put_together(ends, cartpole):
    ours, theirs = ends
    states, encoder = States(theirs, 0), StateEncoder(cartpole, recipe_of(cartpole))
    ours.send({"session": 1})
    ours.send(message(encoder, slot=2))
    for action in (0, 1, 1):
        cartpole.step(action)
        ours.send(message(encoder, slot=2, step=action))
    slot, newest = states.next()
    assert (slot, newest["numbers"][0]) == (2, 1)
    assert states.render(2).tobytes() == OffscreenRenderer(cartpole).render().tobytes()


def test_what_was_meant_for_a_process_before_this_one_is_passed_over(ends, cartpole):
    ours, theirs = ends
    states, encoder = States(theirs, 0), StateEncoder(cartpole, recipe_of(cartpole))
    ours.send(message(encoder, slot=0, session=1))
    ours.send({"session": 2})
    encoder.start_over()
    ours.send(message(encoder, slot=1, session=2))
    assert states.next()[0] == 1


def test_who_has_no_parent_any_more_stops_waiting(ends, monkeypatch):
    monkeypatch.setattr(render_process, "PARENT_CHECK_SECONDS", 0.01)
    with pytest.raises(ParentGone):
        States(ends[1], parent=1).next()


def test_frames_are_written_for_those_who_want_them_and_nobody_else(ends, cartpole, frame_buffer, reader):
    ours, theirs = ends
    encoder = StateEncoder(cartpole, recipe_of(cartpole))
    ours.send({"session": 1})
    ours.send(message(encoder, slot=0))
    with closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)) as writer:
        states = States(theirs, 0)
        serving = threading.Thread(target=_until_closed, args=(states, writer))
        serving.start()
        until(lambda: not ours_waiting(theirs), "it to be received")
        assert reader.read(0) is None, "nobody wants it"
        reader.request(Demand(60.0, 0, frozenset({0}), 1, 1), monotonic() + 9)
        cartpole.step(1)
        ours.send(message(encoder, slot=0))
        frame = until(lambda: reader.read(0), "a frame")
        ours.close()
        serving.join(60)
    assert frame.payload == OffscreenRenderer(cartpole).render().tobytes()
    assert (frame.numbers.env_step, frame.header.captured_at) == (5, 7.5)


def ours_waiting(theirs):
    """Whether something was not received yet."""
    try:
        return bool(theirs._connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def _until_closed(states, writer):
    with pytest.raises(PeerClosed):
        render_all(states, writer, largest_side_of(writer))


class FakeMachine:
    """A clock, a viewer that watches all the time, and frames of which each takes as long as it should."""

    def __init__(self, reader, seconds_per_frame, frames):
        self.reader, self.seconds_per_frame, self.frames_left = reader, seconds_per_frame, frames
        self.busy = self.asleep = 0.0

    def process_time(self):
        return self.busy

    def monotonic(self):
        return self.busy + self.asleep

    def sleep(self, seconds):
        self.asleep += seconds

    def next(self):
        if not self.frames_left:
            raise PeerClosed
        self.frames_left -= 1
        self.reader.request(Demand(60.0, 0, frozenset({0}), 1, 1), self.monotonic() + 2)
        return 0, {"numbers": (0, 0.0, 0.0, 0), "at": 0.0}

    def render(self, _slot):
        self.busy += self.seconds_per_frame
        return np.zeros((4, 4, 3), np.uint8)


def used_share(monkeypatch, frame_buffer, reader, cores, seconds_per_frame):
    machine = FakeMachine(reader, seconds_per_frame, frames=100)
    monkeypatch.setattr(render_process, "time", machine)
    monkeypatch.setattr(render_process, "usable_cores", lambda: cores)
    with closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)) as writer, pytest.raises(PeerClosed):
        render_all(machine, writer, largest_side_of(writer))
    assert machine.busy == pytest.approx(100 * seconds_per_frame)
    return machine.busy / machine.monotonic()


@pytest.mark.parametrize(("cores", "share"), [(1, 0.06), (2, 0.06), (3, 0.5), (64, 0.5)])
def test_rendering_uses_its_share_of_a_core_and_no_more(monkeypatch, frame_buffer, reader, cores, share):
    assert used_share(monkeypatch, frame_buffer, reader, cores, 0.01) == pytest.approx(share)
    assert rendering_share(cores) == share


def test_after_a_slow_frame_it_rests_for_a_quarter_of_a_second_at_most(monkeypatch, frame_buffer, reader):
    """Else a tile whose frames take a second each would stand still for a quarter of a minute."""
    assert rest_seconds(1.0, 0.06) == 0.25
    assert used_share(monkeypatch, frame_buffer, reader, 2, 1.0) == pytest.approx(1 / 1.25)


def test_the_largest_image_fits_into_a_slot(frame_buffer):
    with closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)) as writer:
        assert largest_side_of(writer) == SIDE


def test_a_frame_buffer_that_is_gone_is_no_failure(ends, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "nice", lambda _more: 0)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main([str(os.dup(ends[1].fileno())), "0", str(tmp_path / "gone")]) == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, {start!r}, {descriptor!r}, str(__import__("os").getpid()), {path!r}],
                         pass_fds=({descriptor},))
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_it_ends_when_its_parent_is_killed(ends, frame_buffer):
    ours, theirs = ends
    start = Path(render_process.__file__).with_name("start.py")
    code = PARENT.format(start=str(start), descriptor=str(theirs.fileno()), path=str(frame_buffer.path))
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, pass_fds=(theirs.fileno(),)
    )
    with parent:
        child = int(parent.stdout.readline())
        assert until(ours.receive, "the render process") == {"ready": True}
        parent.kill()
    until(lambda: not Path(f"/proc/{child}").exists() or "Z (zombie)" in status_of(child), "its end")


def status_of(pid):
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "Z (zombie)"
