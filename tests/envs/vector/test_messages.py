"""Messages between processes, tried over a pair of sockets in one."""

import socket
import threading

import numpy as np
import pytest

from palaestra.envs.vector import messages
from palaestra.envs.vector.messages import Kind, Line, LineClosed, Message, ReplyTimeout


@pytest.fixture
def ends():
    here, there = socket.socketpair()
    with here, there:
        yield Line(here, timeout=5.0), Line(there)


def test_a_message_without_content_is_its_head_alone():
    here, there = socket.socketpair()
    with here, there:
        Line(here).send(Kind.STEP)
        assert there.recv(1000) == messages.HEADER.pack(Kind.STEP, 0, 0)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"list": [1, None, True, "ü"], "float": 0.1 + 0.2, "huge": 2**70},
        [b"", b"\x00\xff", {"inner": b"abc"}, "after"],
        [float("inf"), -float("inf")],
    ],
    ids=str,
)
def test_json_types_and_arrays_round_trip(ends, content):
    here, there = ends
    here.send(Kind.DONE, content)
    assert there.receive() == Message(Kind.DONE, content)


def test_arrays_arrive_with_their_type_shape_and_bits_and_may_be_written(ends):
    here, there = ends
    sent = [np.arange(6, dtype=">i2").reshape(2, 3), np.array(np.nan), np.zeros((0, 4), bool), np.arange(9.0)[::2]]
    here.send(Kind.DONE, {"arrays": sent, "scalar": np.float32(0.1), "bytes": b"between"})
    got = there.receive().content
    for one, other in zip(sent, got["arrays"], strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        other[...] = 0
    assert got["scalar"] == np.float32(0.1)
    assert type(got["scalar"]) is np.float32
    assert got["bytes"] == b"between"


def test_messages_larger_than_the_socket_takes_at_once_arrive_whole(ends):
    here, there = ends
    big = np.random.default_rng(0).integers(256, size=3_000_000, dtype=np.uint8)
    sender = threading.Thread(target=lambda: (here.send(Kind.RENDER, big), here.send(Kind.STEP)))
    sender.start()
    assert np.array_equal(there.receive().content, big)
    assert there.receive() == Message(Kind.STEP)
    sender.join()


def test_unsupported_types_are_refused_by_the_connection(ends):
    with pytest.raises(TypeError, match="object is not a JSON type"):
        ends[0].send(Kind.DONE, {"secret": object()})


def test_the_end_of_the_other_side_is_noticed_when_listening_and_when_talking(ends):
    here, there = ends
    there.close()
    with pytest.raises(LineClosed):
        here.receive()
    with pytest.raises(LineClosed):
        here.send(Kind.STEP)


def test_silence_is_no_reply():
    here, there = socket.socketpair()
    with here, there, pytest.raises(ReplyTimeout):
        Line(here, timeout=0.01).receive()


def test_a_peer_that_does_not_read_times_out():
    here, there = socket.socketpair()
    with here, there, pytest.raises(ReplyTimeout):
        Line(here, timeout=0.01).send(Kind.DONE, b"x" * 50_000_000)


def test_a_long_pause_counts_as_one_slice(monkeypatch):
    """As after Ctrl-Z and `fg`: one wait takes very long, and then the answer is there."""

    class Paused:
        calls = 0

        def settimeout(self, seconds):
            assert seconds == messages.SLICE_SECONDS

        def recv(self, size):
            self.calls += 1
            if self.calls <= 3:
                raise TimeoutError  # however long it took
            return messages.HEADER.pack(Kind.DONE, 0, 0)[:size]

    assert Line(Paused(), timeout=4.0).receive() == Message(Kind.DONE)
    with pytest.raises(ReplyTimeout):
        Line(Paused(), timeout=3.0).receive()
