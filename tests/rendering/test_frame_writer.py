import errno
import resource
import struct
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from palaestra.rendering import frame_writer as writer
from palaestra.rendering.frame_format import Demand, Heartbeat
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.notifier import NotificationReceiver


def test_image_and_numbers_arrive_together(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    shown = image(seed=3)
    ends.writer.write(1, shown, numbers(reward=-2.0))
    frame = ends.reader.read(1)
    assert np.array_equal(np.frombuffer(frame.payload, np.uint8).reshape(shown.shape), shown)
    assert frame.numbers == numbers(reward=-2.0)
    assert (frame.slot, frame.sequence, frame.is_image) == (1, 1, True)
    assert ends.reader.read(0) is None


def test_a_non_contiguous_image_is_written_correctly(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    turned = image(seed=4).transpose(1, 0, 2)[:, ::-1]
    ends.writer.write(0, turned, numbers())
    frame = ends.reader.read(0)
    assert (frame.header.height, frame.header.width) == turned.shape[:2]
    assert frame.payload == turned.tobytes()


def test_a_state_is_bytes_and_comes_back_as_they_are(open_frame_buffer, numbers):
    ends = open_frame_buffer()
    ends.writer.write(0, b"AR\x01\x00some world", numbers())
    frame = ends.reader.read(0)
    assert (frame.payload, frame.is_image) == (b"AR\x01\x00some world", False)


def test_frames_are_counted_and_the_last_one_counts(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    for shade in range(7):
        ends.writer.write(0, image(shade), numbers(env_step=shade))
    frame = ends.reader.read(0)
    assert (frame.sequence, frame.numbers.env_step, frame.payload[0]) == (7, 6, 6)
    assert ends.reader.read(0, newer_than=7) is None
    assert ends.writer.frames == 7


class HonestStruct(struct.Struct):
    """`pack_into` as it is: zeros first, then the value. `look` is called in between."""

    def pack_into(self, buffer, offset, *values):
        buffer[offset : offset + self.size] = bytes(self.size)
        self.look()
        super().pack_into(buffer, offset, *values)


@pytest.mark.fault("F4")
def test_no_instant_of_a_write_leaves_the_slot_without_any_frame(open_frame_buffer, image, numbers, monkeypatch):
    """Whatever a reader can see in between, a kill can leave behind."""
    ends, observed = open_frame_buffer(), []
    ends.writer.write(0, image(1), numbers(env_step=0))
    slow = HonestStruct("<Q")
    slow.look = lambda: observed.append(ends.reader.read(0).numbers.env_step)
    monkeypatch.setattr(writer, "SEQUENCE", slow)
    for step in range(1, 4):
        ends.writer.write(0, image(1), numbers(env_step=step))
    assert observed == [0, 1, 2]


@pytest.mark.fault("F6")
def test_what_is_too_large_is_refused_and_the_old_frame_stays(open_frame_buffer, image, numbers):
    ends = open_frame_buffer(capacity=1000)
    ends.writer.write(0, image(5), numbers())
    with pytest.raises(OSError, match="do not fit"):
        ends.writer.write(0, image(6, 100, 100), numbers())
    assert ends.reader.read(0).payload[0] == 5


@pytest.mark.fault("F1")
def test_where_there_is_no_room_it_is_an_error_and_the_old_frame_stays(open_frame_buffer, image, numbers):
    ends = open_frame_buffer(slots=2, capacity=48 * 48 * 3)
    ends.writer.write(1, image(5), numbers())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ends.owner.about.image_at(1, 0) + 100, hard))
    try:
        with pytest.raises(OSError) as refusal:
            ends.writer.write(1, image(6, 40, 40), numbers())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refusal.value.errno in {errno.ENOSPC, errno.EFBIG}
    assert ends.reader.read(1).payload[0] == 5


def test_nobody_wants_anything_until_somebody_does(open_frame_buffer):
    ends = open_frame_buffer()
    now = monotonic()
    assert not ends.writer.is_wanted(now)
    assert ends.writer.demand(now) is None
    request = Demand(15.0, 320, frozenset({1}), 3, 4)
    ends.reader.request(request, now + 2)
    assert ends.writer.is_wanted(now)
    assert ends.writer.demand(now) == request
    assert ends.writer.demand(now + 2.5) is None


def test_a_demand_without_slots_is_none(open_frame_buffer):
    ends = open_frame_buffer()
    ends.reader.request(Demand(15.0, 320, frozenset(), 3, 4), 2.0)
    assert ends.writer.demand(1.0) is None


def test_a_notification_reaches_the_notifier_of_the_demand(open_frame_buffer):
    ends, notifier = open_frame_buffer(), NotificationReceiver()
    ends.writer.notify(Demand(1.0, 0, frozenset({1}), notifier.number, 77), 1)
    assert notifier.receive() == {(77, 1)}
    notifier.close()


def test_a_heartbeat_is_read_as_it_was_written(open_frame_buffer):
    ends = open_frame_buffer()
    assert ends.reader.heartbeat() is None
    beat = Heartbeat(1.0, 2, 3, 4, 0.5, 6.0, "failed", "no luck")
    ends.writer.write_heartbeat(beat)
    assert ends.reader.heartbeat() == beat


def test_nothing_stays_open(open_frame_buffer):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(20):
        open_frame_buffer(f"RUN{number}").close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_frames_of_all_writers_of_a_frame_buffer_are_counted_together(open_frame_buffer, image, numbers):
    ends = open_frame_buffer(slots=40)
    other = FrameWriter(ends.owner.descriptor, ends.owner.about)
    for slot in (0, 0, 39):
        ends.writer.write(slot, image(1), numbers())
    for slot in (0, 20):
        other.write(slot, image(2), numbers())
    assert ends.writer.total_frames() == other.total_frames() == 5
    assert (ends.writer.frames, other.frames) == (3, 2)
    assert ends.reader.read(0).sequence == 3
    other.close()


def test_the_capture_time_of_a_frame_can_be_given(open_frame_buffer, image, numbers):
    ends = open_frame_buffer()
    ends.writer.write(0, image(1), numbers(), captured_at=1234.5)
    assert ends.reader.read(0).header.captured_at == 1234.5
