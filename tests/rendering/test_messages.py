from __future__ import annotations

import json
from contextlib import closing

import numpy as np
import pytest

from palaestra.rendering.messages import LARGEST_MESSAGE, MessageTooLong, PeerClosed, pack, socket_pair, unpack


def test_json_types_bytes_arrays_and_scalars_round_trip():
    content = {
        "text": "a",
        "nested": [{"bytes": b"\x00\x01"}, None, True, 1.5, 2**70],
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "scalar": np.float32(0.1),
    }
    found = unpack(*pack(content))
    assert found["text"] == "a"
    assert found["nested"] == content["nested"]
    assert found["array"].dtype == np.int16
    assert found["array"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(found["scalar"], np.float32)
    assert found["scalar"] == np.float32(0.1)


def test_a_message_without_bytes_is_json_alone():
    header, tail = pack({"a": [1]})
    assert (json.loads(header), tail) == ({"a": [1]}, b"")
    assert pack(None) == (b"", b"")


def test_unsupported_types_are_refused_by_name():
    with pytest.raises(TypeError, match="object is not a JSON type"):
        pack({"a": object()})


@pytest.fixture
def ends():
    ours, theirs = socket_pair()
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_messages_arrive_whole_and_in_order_and_nobody_waits(ends):
    ours, theirs = ends
    assert theirs.receive() is None
    assert ours.send({"number": 1, "array": np.arange(3)})
    assert ours.send({"number": 2})
    assert [theirs.receive()["number"] for _ in range(2)] == [1, 2]
    assert theirs.receive() is None


def test_a_full_buffer_refuses_instead_of_waiting(ends):
    ours, theirs = ends
    sent = 0
    while ours.send({"payload": b"x" * 1000}):
        sent += 1
        assert sent < 100_000
    assert theirs.receive() is not None
    assert sum(theirs.receive() is not None for _ in range(sent)) == sent - 1


def test_a_message_that_never_finds_room_is_an_error(ends):
    with pytest.raises(MessageTooLong, match="bytes"):
        ends[0].send({"payload": b"x" * LARGEST_MESSAGE})


def test_a_message_of_nearly_the_largest_size_arrives(ends):
    ours, theirs = ends
    assert ours.send({"payload": b"x" * (LARGEST_MESSAGE - 100)})
    assert len(theirs.receive()["payload"]) == LARGEST_MESSAGE - 100


def test_the_end_of_the_other_side_is_noticed(ends):
    ours, theirs = ends
    theirs.close()
    with pytest.raises(PeerClosed):
        ours.receive()
    with pytest.raises(PeerClosed):
        ours.send({})
