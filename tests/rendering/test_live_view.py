from __future__ import annotations

import itertools
import random
from math import inf
from time import monotonic

import numpy as np
import pytest

from palaestra.rendering import live_view
from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import Demand, Numbers
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import CHECK_SECONDS, SAVED_SECONDS, LiveView, Pacing, View
from palaestra.rendering.render_client import Status


class Source:
    """Counts how often it was rendered."""

    def __init__(self, slots=range(4), content=None, error=None):
        self._slots, self.content, self.error, self.rendered = list(slots), content, error, []

    def slots(self):
        return self._slots

    def numbers(self, slot):
        return Numbers(17, 1.0, 2.0, 3)

    def view(self, slot):
        self.rendered.append(slot)
        if self.error is not None:
            raise self.error
        content = self.content if self.content is not None else np.full((8, 8, 3), slot, np.uint8)
        return View(content, self.numbers(slot))

    def describable(self, slot):
        return object(), dict


@pytest.fixture
def frame_buffer(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with FrameBufferOwner(frame_buffer_path("RUN"), 4, 64 * 64 * 3, 1.0) as owner:
        yield owner


@pytest.fixture
def writer(frame_buffer):
    made = FrameWriter(frame_buffer.descriptor, frame_buffer.about)
    yield made
    made.close()


@pytest.fixture
def reader(frame_buffer):
    made = FrameReader(frame_buffer.path)
    yield made
    made.close()


def want(reader, slots=range(4), fps=60.0, side=0, now=None):
    reader.request(Demand(fps, side, frozenset(slots), 1, 1), (now or monotonic()) + 2)


def test_nobody_watches_so_nothing_is_drawn(writer, reader):
    view, source = LiveView(writer, 0.02, 64), Source()
    began = monotonic()
    view.check(source)
    assert source.rendered == []
    assert view.due >= began + CHECK_SECONDS
    assert reader.heartbeat().condition == "open"


def test_what_is_wanted_is_drawn_and_nothing_else(writer, reader):
    want(reader, slots=[1, 3, 900])
    view, source = LiveView(writer, 1.0, 64), Source()
    view.check(source)
    assert source.rendered == [1, 3]
    frame = reader.read(3)
    assert (frame.payload[0], frame.numbers.env_step, frame.numbers.length) == (3, 17, 3)
    assert reader.read(0) is None


def test_tiles_beyond_those_of_the_source_are_not_drawn(writer, reader):
    want(reader)
    source = Source(range(2))
    LiveView(writer, 1.0, 64).check(source)
    assert source.rendered == [0, 1]


def test_a_process_of_several_writes_its_slot_and_no_heartbeat(writer, reader):
    want(reader)
    LiveView(writer, 1.0, 64, writes_heartbeat=False).check(Source([2]))
    assert reader.read(2) is not None
    assert reader.read(0) is None
    assert reader.heartbeat() is None


@pytest.mark.fault("F6")
@pytest.mark.parametrize("side", [0, 32, 16])
def test_huge_images_are_shrunk_before_they_are_written(writer, reader, side):
    want(reader, slots=[0], side=side)
    LiveView(writer, 1.0, 64).check(Source(content=np.broadcast_to(np.uint8(9), (4320, 7680, 3))))
    frame = reader.read(0)
    assert 2 / 3 * (side or 64) <= max(frame.header.width, frame.header.height) <= min(64, 1.5 * (side or 64))
    assert set(frame.payload) == {9}


def test_a_renderer_that_raises_ends_the_live_view_with_one_message(writer, reader):
    want(reader)
    reports = []
    view = LiveView(writer, 1.0, 64, on_failure=reports.append)
    source = Source(error=RuntimeError("no display."))
    view.check(source)
    assert view.due == inf
    assert reports == ["RuntimeError: no display"]
    assert (reader.heartbeat().condition, reader.heartbeat().reason) == ("failed", "RuntimeError: no display")
    view.close()
    assert reader.heartbeat().condition == "failed"


def test_a_frame_that_finds_no_room_ends_the_live_view(writer, reader):
    want(reader)
    view = LiveView(writer, 1.0, 64)
    view.check(Source(content=b"x" * (64 * 64 * 3 + 1)))
    assert view.due == inf
    assert "do not fit" in reader.heartbeat().reason


def test_whoever_interrupts_is_not_swallowed(writer, reader):
    want(reader)
    with pytest.raises(KeyboardInterrupt):
        LiveView(writer, 1.0, 64).check(Source(error=KeyboardInterrupt()))


def test_closing_writes_the_condition_closed(writer, reader):
    view = LiveView(writer, 1.0, 64)
    view.close()
    assert reader.heartbeat().condition == "closed"
    assert view.due == inf


def test_what_can_no_longer_be_shown_is_not_watched(writer, reader):
    want(reader)
    view = LiveView(writer, 1.0, 64)
    view.check(Source(error=RuntimeError("no display.")))
    assert not view.is_watched


def test_the_share_of_time_is_measured(writer, reader, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(live_view, "monotonic", lambda: now[0])
    view, source = LiveView(writer, 0.05, 64), Source()
    render = source.view

    def slowly(slot):
        now[0] += 0.001
        return render(slot)

    source.view = slowly
    for _ in range(1000):
        now[0] += 0.001
        want(reader, now=now[0])
        if now[0] >= view.due:
            view.check(source)
    beat = reader.heartbeat()
    assert beat.frames == writer.frames > 1
    assert beat.seconds_spent == pytest.approx(0.001 * writer.frames)
    assert 0.04 < beat.cost <= 0.055  # of 0.05, and the first frame is free
    assert beat.seconds_watched == pytest.approx(1.0, abs=0.1)


class Client:
    """A render process that writes down what it is sent."""

    def __init__(self, status=Status.READY, takes=9999, waits=True, is_needed=True):
        self.status, self.takes, self.waits, self.is_needed = status, takes, waits, is_needed
        self.sent, self.released, self.is_closed, self.is_ended, self.busy = [], 0, False, False, set()

    def attend(self, now, frames):
        return self.status

    def can_describe(self, slot, env, recipe):
        return True

    def must_wait(self, now):
        return self.waits

    def is_due(self, slot, writer, now):
        return slot not in self.busy

    def send(self, slot, numbers, writer, now):
        self.sent.append((slot, numbers.env_step))
        if len(self.sent) >= self.takes:
            self.status = Status.IDLE

    def release(self, now):
        self.released += 1

    def end(self):
        self.is_ended = True

    def close(self):
        self.is_closed = True


def test_what_is_sent_to_the_render_process_is_not_rendered_here(writer, reader):
    want(reader, slots=[0, 2])
    client, source = Client(), Source()
    LiveView(writer, 1.0, 64, client=client).check(source)
    assert client.sent == [(0, 17), (2, 17)]
    assert source.rendered == []


def test_a_state_that_is_not_rendered_yet_is_not_followed_by_another(writer, reader):
    want(reader)
    client = Client()
    client.busy = {1, 3}
    LiveView(writer, 1.0, 64, client=client).check(Source())
    assert [slot for slot, _ in client.sent] == [0, 2]


def test_frames_are_counted_where_they_are_written(frame_buffer, writer, reader):
    want(reader)
    view = LiveView(writer, 1.0, 64, client=Client())
    elsewhere = FrameWriter(frame_buffer.descriptor, frame_buffer.about)
    for slot in (0, 3, 3):
        elsewhere.write(slot, b"rendered elsewhere", Numbers(1, 0.0, 0.0, 1))
    elsewhere.close()
    view.check(Source())
    assert reader.heartbeat().frames == 3


def test_a_render_process_that_starts_is_waited_for_where_rendering_here_is_costly(writer, reader):
    want(reader)
    client, source = Client(Status.STARTING), Source()
    view = LiveView(writer, 1.0, 64, client=client)
    began = monotonic()
    view.check(source)
    assert (client.sent, source.rendered) == ([], [])
    assert view.due >= began + CHECK_SECONDS
    client.waits = False
    view.check(source)
    assert source.rendered


def test_a_render_process_that_is_lost_in_the_middle_is_sent_no_more_in_this_round(writer, reader):
    want(reader)
    client, source = Client(takes=2, waits=False), Source()
    view = LiveView(writer, 1.0, 64, client=client)
    view.check(source)
    assert (client.sent, source.rendered) == ([(0, 17), (1, 17)], [])
    view.check(source)
    assert source.rendered, "the view goes on"


def test_one_that_has_failed_is_ended_and_frames_are_rendered_here(writer, reader):
    want(reader)
    client, source = Client(Status.FAILED), Source()
    LiveView(writer, 1.0, 64, client=client).check(source)
    assert client.is_ended
    assert source.rendered


def test_an_environment_that_only_this_process_can_render_is_rendered_here(writer, reader):
    want(reader)
    client, source = Client(), Source()
    source.describable = lambda slot: None
    LiveView(writer, 1.0, 64, client=client).check(source)
    assert client.sent == []
    assert source.rendered


def test_each_slot_is_sent_as_often_as_requested_and_not_more(writer, reader, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(live_view, "monotonic", lambda: now[0])
    client = Client()
    view = LiveView(writer, 0.015, 64, client=client)
    for _ in range(1000):  # ten seconds of a hundred steps
        now[0] += 0.01
        want(reader, fps=15.0, now=now[0])
        if now[0] >= view.due:
            view.check(Source())
    sent = [sum(slot == each for slot, _ in client.sent) for each in range(4)]
    assert max(sent) == min(sent)
    assert 120 <= sent[0] <= 151


def test_slots_that_were_rendered_one_by_one_are_sent_together(writer, reader, monkeypatch):
    now, rounds = [1000.0], []
    monkeypatch.setattr(live_view, "monotonic", lambda: now[0])
    client, source = Client(Status.STARTING, waits=False), Source()
    view = LiveView(writer, 0.015, 64, client=client)

    def slowly(slot):
        now[0] += 0.002
        return Source.view(source, slot)

    source.view = slowly
    for count in range(2000):
        now[0] += 0.005
        want(reader, fps=15.0, now=now[0])
        client.status = Status.STARTING if count < 1000 else Status.READY
        if now[0] >= view.due:
            view.check(source)
            rounds.append(len(client.sent))
    assert 10 < len(source.rendered) < 50, "the budget spread them"
    per_round = [after - before for before, after in itertools.pairwise(rounds) if after > before]
    assert set(per_round[1:]) == {4}
    assert 60 <= len(per_round) <= 76, "in five seconds"


def test_what_needs_no_render_process_is_rendered_here(writer, reader):
    client = Client(is_needed=False)
    view = LiveView(writer, 1.0, 64, client=client)
    want(reader)
    view.check(Source())
    assert client.sent == []
    assert writer.frames > 0


def test_sending_has_a_small_part_of_the_budget_of_rendering(writer, reader, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(live_view, "monotonic", lambda: now[0])
    client = Client(takes=10**9)
    send = client.send

    def slowly(*given):
        now[0] += 0.01
        send(*given)

    client.send = slowly
    view = LiveView(writer, 0.02, 64, client=client)
    for _ in range(12_000):
        now[0] += 0.01
        want(reader, now=now[0])
        if now[0] >= view.due:
            view.check(Source())
    assert 0.002 < reader.heartbeat().cost <= 0.004  # of 0.003, and the first round is free


def test_without_viewers_a_render_process_is_released_and_closed_with_the_view(writer, reader):
    client = Client()
    view = LiveView(writer, 1.0, 64, client=client)
    view.check(Source())
    assert (client.released, client.sent, client.is_closed) == (1, [], False)
    view.close()
    assert client.is_closed


def test_a_live_view_that_ends_takes_its_render_process_along(writer, reader):
    want(reader)
    client = Client(Status.FAILED)
    LiveView(writer, 1.0, 64, client=client).check(Source(error=RuntimeError("no display.")))
    assert client.is_closed


def drive(pacing, seconds, cost, fps=15.0, slots=range(8), step=0.002, update=(0.0, 0.0)):
    """A worker that steps, and draws when it may: what was drawn when, and how long drawing took in all."""
    now, due, record_frame, spent, next_update = 0.0, 0.0, [], 0.0, update[0] or 1e9
    while now < seconds:
        now += step
        if now > next_update:
            now += update[1]
            next_update = now + update[0]
        if now < due:
            continue
        pacing.earn(now)
        began = now
        while (slot := pacing.next_slot(slots, began)) is not None:
            record_sent = cost() if callable(cost) else cost
            pacing.record_frame(slot, began, record_sent, fps)
            record_frame.append((now, slot))
            now += record_sent
            spent += record_sent
        due = min(pacing.due_at(slots, began), began + 0.1)
    return record_frame, spent, now


@pytest.mark.parametrize("cost", [0.0001, 0.0025, 0.11, 0.5])
@pytest.mark.parametrize("budget", [0.015, 0.25])
def test_rendering_takes_no_more_than_its_share_whatever_a_frame_costs(cost, budget):
    record_frame, spent, seconds = drive(Pacing(budget), 200, cost)
    assert record_frame
    assert spent <= budget * seconds + cost


def test_the_share_also_holds_when_the_cost_changes_all_the_time():
    chance = random.Random(5)
    _, spent, seconds = drive(Pacing(0.02), 300, lambda: chance.choice([0.0005, 0.003, 0.2]))
    assert spent <= 0.02 * seconds + 0.2


def test_the_share_also_holds_with_long_updates_between_steps():
    _, spent, seconds = drive(Pacing(0.02), 100, 0.0025, update=(1.0, 3.0))
    assert spent <= 0.02 * seconds + 0.0025


def test_cheap_frames_come_as_often_as_requested_and_no_more():
    record_frame, _, _ = drive(Pacing(0.5), 10, 0.0001, fps=10.0, slots=range(4))
    counts = [sum(slot == one for _, slot in record_frame) for one in range(4)]
    assert all(90 <= count <= 101 for count in counts), counts


def test_no_tile_starves():
    record_frame, _, _ = drive(Pacing(0.02), 60, 0.01, slots=range(8))
    counts = [sum(slot == one for _, slot in record_frame) for one in range(8)]
    assert max(counts) - min(counts) <= 1
    assert [slot for _, slot in record_frame[:16]] == [*range(8), *range(8)]


def test_unused_budget_is_stored_for_a_second_at_most():
    pacing = Pacing(0.02)
    pacing.earn(0.0)
    pacing.earn(1000.0)
    pictures = 0
    while pacing.next_slot(range(1000), 1000.0) is not None:
        pacing.record_frame(pictures, 1000.0, 0.001, 15.0)
        pictures += 1
    assert pictures == pytest.approx(0.02 * SAVED_SECONDS / 0.001, abs=1)


def test_the_first_frame_comes_at_once():
    pacing = Pacing(0.01)
    pacing.earn(50.0)
    assert pacing.next_slot([3], 50.0) == 3
