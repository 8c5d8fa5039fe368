from __future__ import annotations

import json
import os
import select

import pytest

from palaestra.apps.scripts.launcher.messages import ATOMIC_WRITE_BYTES, MessageWriter, encode_lines, fork_count


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def lines(reading):
    return [message for line in os.read(reading, 1 << 16).splitlines() for message in json.loads(line)]


def test_messages_arrive_in_order_when_the_writer_is_closed(pipe):
    reading, writing = pipe
    writer = MessageWriter(writing)
    writer.start(lambda: None)
    for number in range(5):
        writer.send("scalar", number)
    writer.close()
    assert lines(reading) == [["scalar", number] for number in range(5)]


def test_before_every_flush_there_is_a_word_about_how_things_stand(pipe):
    reading, writing = pipe
    writer = MessageWriter(writing)
    writer.start(lambda: writer.send("heartbeat"))
    assert select.select([reading], [], [], 30)[0]
    assert ["heartbeat"] in lines(reading)
    writer.close()


def test_pieces_are_whole_lines_that_a_pipe_takes_at_once():
    messages = [["scalar", "x" * 100, number] for number in range(200)]
    found = encode_lines(messages)
    assert 1 < len(found) < 10
    assert all(len(piece) <= ATOMIC_WRITE_BYTES and piece.endswith(b"\n") for piece in found)
    assert [message for line in b"".join(found).splitlines() for message in json.loads(line)] == messages


def test_a_message_that_is_too_long_for_a_piece_is_still_whole():
    messages = [["ended", "x" * ATOMIC_WRITE_BYTES], ["heartbeat", 1]]
    assert [json.loads(piece) for piece in encode_lines(messages)] == [[messages[0]], [messages[1]]]


def test_a_forked_environment_writes_at_once(pipe):
    reading, writing = pipe
    writer = MessageWriter(writing)
    writer._fork_count -= 1
    writer.send("episode", 1)
    assert lines(reading) == [["episode", 1]]


def told_by_child():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, bytes([fork_count()]))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    reported = os.read(reading, 1)[0]
    os.close(reading)
    return reported


def test_a_forked_process_is_of_another_generation_and_this_one_stays_what_it_is():
    before = fork_count()
    assert told_by_child() == before + 1
    assert fork_count() == before
