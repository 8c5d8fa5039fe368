from __future__ import annotations

import os
from time import monotonic

import numpy as np
import pytest

from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import LEASE_SECONDS, Demand, Numbers
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import View
from palaestra.runner.match.display import Display
from palaestra.runs.processes import process_started_at


class Sitting:
    """A seat that shows one colour."""

    def __init__(self, colour, is_over=False):
        self.colour, self.is_over, self.length = colour, is_over, 12
        self.drawn = 0

    def view(self):
        self.drawn += 1
        if self.colour is None:
            return View(b"a state", Numbers(self.length, 0.5, 2.5, 12))
        return View(np.full((200, 300, 3), self.colour, np.uint8), Numbers(self.length, 0.5, 2.5, 12))


@pytest.fixture
def ends(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    owner = FrameBufferOwner(frame_buffer_path("m1", "match"), 2, 3 * 100**2, process_started_at(os.getpid()))
    writer, reader = FrameWriter(owner.descriptor, owner.about), FrameReader(owner.path)
    yield writer, reader
    reader.close()
    writer.close()
    owner.close()


def want(reader, slots):
    reader.request(Demand(15.0, 64, frozenset(slots), 0, 1), monotonic() + LEASE_SECONDS)


def test_nobody_watches_and_nothing_is_drawn(ends):
    writer, _ = ends
    seats = [Sitting(1), Sitting(2)]
    Display(writer, 100).show(seats)
    assert [seat.drawn for seat in seats] == [0, 0]


def test_only_what_is_wanted_is_drawn_small_and_with_its_numbers(ends):
    writer, reader = ends
    seats = [Sitting(1), Sitting(2)]
    want(reader, [1, 7])
    Display(writer, 100).show(seats)
    assert [seat.drawn for seat in seats] == [0, 1]
    frame = reader.read(1)
    assert max(frame.header.width, frame.header.height) <= 100
    assert set(frame.payload) == {2}
    assert (frame.numbers.reward, frame.numbers.total_reward, frame.numbers.length) == (0.5, 2.5, 12)


def test_a_state_is_written_unchanged(ends):
    writer, reader = ends
    want(reader, [0])
    Display(writer, 100).show([Sitting(None)])
    assert reader.read(0).payload == b"a state"


def test_whoever_comes_later_sees_a_match_that_stands_still_and_its_heart_beats(ends):
    writer, reader = ends
    screen, seat = Display(writer, 100), Sitting(3)
    screen.refresh([seat])
    assert (seat.drawn, reader.heartbeat().condition) == (0, "open")
    want(reader, [0])
    screen._shown_at = 0.0  # long ago
    screen.refresh([seat])
    assert reader.read(0) is not None
    screen.close()
    assert reader.heartbeat().condition == "closed"


def test_steps_of_those_that_still_play_are_counted(ends):
    writer, reader = ends
    screen = Display(writer, 100)
    screen.show([Sitting(1), Sitting(2, is_over=True)])
    screen.show([Sitting(1), Sitting(2)])
    screen.close()
    assert reader.heartbeat().env_steps == 3
