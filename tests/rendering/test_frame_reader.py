import mmap
import os
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palaestra.rendering.frame_buffer import InvalidFrameBuffer
from palaestra.rendering.frame_format import FRAME_HEADER, HEADER_AT, PIXELS
from palaestra.rendering.frame_reader import FrameReader

STRANGE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBER = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))


def scribble(path, at, data):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.fault("F5")
@STRANGE
@given(st.binary(min_size=248, max_size=248), NUMBER)
def test_a_hostile_slot_is_dropped_and_counted_and_the_others_are_still_read(
    open_frame_buffer, image, numbers, noise, sequence
):
    ends = open_frame_buffer()
    ends.writer.write(1, image(9), numbers())
    scribble(ends.path, ends.owner.about.slot_at(0), struct.pack("<Q", sequence) + noise)
    assert ends.reader.read(0) is None
    assert ends.reader.dropped.total() == (1 if sequence else 0)
    assert ends.reader.read(1).payload[0] == 9
    ends.close()


@pytest.mark.fault("F5")
@STRANGE
@given(NUMBER, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1))
def test_no_size_in_a_header_makes_the_reader_read_beyond_its_image(
    open_frame_buffer, image, numbers, size, width, height, kind
):
    ends = open_frame_buffer()
    ends.writer.write(0, image(9), numbers())
    note = FRAME_HEADER.pack(1, kind, 3, width, height, 0, size, 0, 0, 0.0, float("nan"), float("inf"))
    scribble(ends.path, ends.owner.about.slot_at(0) + HEADER_AT[1], note)
    requested = []
    read, ends.reader._bytes = (
        ends.reader._bytes,
        lambda offset, length: requested.append(length) or read(offset, length),
    )
    assert ends.reader.read(0) is None
    assert ends.reader.dropped.total() == 1
    assert max(requested) <= max(ends.owner.about.capacity, 256)
    ends.close()


@pytest.mark.fault("F5")
def test_a_file_cut_short_while_it_is_read_is_no_crash(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    ends.writer.write(0, image(9), numbers())
    os.truncate(ends.path, ends.owner.about.head_bytes)
    assert ends.reader.read(0) is None
    os.truncate(ends.path, 100)
    assert ends.reader.read(0) is None
    assert ends.reader.heartbeat() is None
    assert ends.reader.dropped == {"torn": 1, "short": 1}
    os.truncate(ends.path, ends.owner.about.file_bytes)


def test_an_image_with_a_flipped_bit_is_not_shown(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    ends.writer.write(0, image(9), numbers())
    scribble(ends.path, ends.owner.about.image_at(0, 1) + 20, b"\x08")
    assert ends.reader.read(0) is None
    assert ends.reader.dropped == {"torn": 1}


def test_numbers_of_another_frame_are_not_shown_with_an_image(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    ends.writer.write(0, image(9), numbers(reward=1.0))
    at = ends.owner.about.slot_at(0) + HEADER_AT[1] + FRAME_HEADER.size - 16
    assert struct.unpack("<d", os.pread(ends.owner.descriptor, 8, at)) == (1.0,)
    scribble(ends.path, at, struct.pack("<d", 2.0))
    assert ends.reader.read(0) is None


@pytest.mark.fault("F4")
def test_a_frame_that_is_being_written_leaves_the_one_before(open_frame_buffer, image, numbers, monkeypatch):
    """As if the writer were killed after every single step of a write."""
    ends = open_frame_buffer()
    ends.writer.write(0, image(1), numbers(env_step=1))
    steps = []

    def halfway(payload, offset):
        os.pwrite(ends.owner.descriptor, payload[: len(payload) // 2], offset)
        steps.append(ends.reader.read(0).numbers.env_step)
        raise KeyboardInterrupt

    for attempt in range(3):
        monkeypatch.setattr(ends.writer, "_write_whole", halfway)
        with pytest.raises(KeyboardInterrupt):
            ends.writer.write(0, image(2), numbers(env_step=2))
        assert ends.reader.read(0).payload[0] == 1, attempt
    monkeypatch.undo()
    ends.writer.write(0, image(3), numbers(env_step=3))
    assert ends.reader.read(0).numbers.env_step == 3
    assert steps == [1, 1, 1]
    assert ends.reader.dropped.total() == 0


@pytest.mark.fault("F5")
def test_a_frame_buffer_whose_head_lies_is_refused(open_frame_buffer):
    ends = open_frame_buffer()
    scribble(ends.path, 12, struct.pack("<I", 3))
    with pytest.raises(InvalidFrameBuffer, match="checksum"):
        FrameReader(ends.path)


def test_the_reader_maps_nothing_so_that_nobody_can_pull_it_from_under_its_feet(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    ends.writer.write(0, image(1), numbers())
    held = [value for value in vars(ends.reader).values() if isinstance(value, mmap.mmap)]
    assert held == []
    assert ends.reader.read(0).header.kind == PIXELS
