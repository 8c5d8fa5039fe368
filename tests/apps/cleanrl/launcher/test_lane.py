"""What the launcher writes, our own reader reads: the two share no line of code."""

import struct
import time

import numpy as np
import pytest

from palaestra.apps.cleanrl.launcher import lane as launcher_lane
from palaestra.apps.cleanrl.launcher.lane import Numbers
from palaestra.frames.bell import Bell
from palaestra.frames.demand import Demand


def picture(shade, height=20, width=30):
    made = np.full((height, width, 3), shade, dtype=np.uint8)
    made[1, 2] = (1, 2, 3)
    return made


def test_pictures_and_numbers_arrive_together(lane_file, open_lane):
    path, reader = lane_file
    lane = open_lane(path)
    for shade in (7, 8, 9):
        lane.write(1, picture(shade), Numbers(shade, 0.5, -2.5, 12))
    frame = reader.read(1)
    assert frame.payload == picture(9).tobytes()
    assert (frame.note.height, frame.note.width, frame.sequence) == (20, 30, 3)
    found = frame.numbers
    assert (found.env_step, found.reward, found.total_reward, found.length) == (9, 0.5, -2.5, 12)
    assert reader.read(0) is None


class HonestStruct(struct.Struct):
    """`pack_into` as it is: zeros first, then the value. `look` is called in between."""

    def pack_into(self, buffer, offset, *values):
        buffer[offset : offset + self.size] = bytes(self.size)
        self.look()
        super().pack_into(buffer, offset, *values)


@pytest.mark.fault("F4")
def test_no_instant_of_a_write_leaves_the_slot_without_any_frame(lane_file, open_lane, monkeypatch):
    """Whatever a reader can see in between, a kill can leave behind."""
    path, reader = lane_file
    lane, seen = open_lane(path), []
    lane.write(1, picture(0), Numbers(0, 0.0, 0.0, 0))
    slow = HonestStruct("<Q")
    slow.look = lambda: seen.append(reader.read(1).numbers.env_step)
    monkeypatch.setattr(launcher_lane, "SEQUENCE", slow)
    for step in range(1, 4):
        lane.write(1, picture(step), Numbers(step, 0.0, 0.0, 0))
    assert seen == [0, 1, 2]


def test_a_wish_is_understood_and_nobody_wants_anything_without_one(lane_file, open_lane):
    path, reader = lane_file
    lane, now = open_lane(path), time.monotonic()
    assert lane.demand(now) is None
    reader.want(Demand(12.0, 320, frozenset({0, 2}), 77, 88), now + 2)
    wish = lane.demand(now)
    assert (wish.frames_per_second, wish.largest_side, wish.mask, wish.bell, wish.ticket) == (12.0, 320, 5, 77, 88)
    assert lane.demand(now + 3) is None
    assert lane.demand(now - 60) is None, "a lease of another clock"


def test_the_bell_is_heard(lane_file, open_lane):
    path, reader = lane_file
    lane, bell = open_lane(path), Bell()
    reader.want(Demand(12.0, 320, frozenset({2}), bell.number, 5), time.monotonic() + 2)
    lane.ring(lane.demand(time.monotonic()), 2)
    assert bell.heard() == {(5, 2)}
    bell.close()
    lane.ring(lane.demand(time.monotonic()), 2)  # nobody hears it, and that is all


def test_a_beat_says_how_it_stands(lane_file, open_lane):
    path, reader = lane_file
    lane = open_lane(path)
    lane.beat(120, 3, 0.5, 10.0)
    beat = reader.beat()
    assert (beat.env_steps, beat.episodes, beat.cost, beat.condition) == (120, 3, 0.05, "open")
    lane.beat(120, 3, 0.5, 10.0, "no screen")
    assert (reader.beat().condition, reader.beat().reason) == ("failed", "no screen")


def test_what_is_too_large_is_refused_and_what_is_no_lane_is_not_opened(lane_file, tmp_path, open_lane):
    path, _ = lane_file
    with pytest.raises(OSError, match="do not fit"):
        open_lane(path).write(0, picture(1, 100, 100), Numbers(0, 0.0, 0.0, 0))
    (tmp_path / "other").write_bytes(b"PALANE" + bytes(5000))
    with pytest.raises(OSError, match="no lane of this version"):
        open_lane(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        open_lane(tmp_path / "absent")
