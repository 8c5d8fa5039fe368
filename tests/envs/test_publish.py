import itertools
import logging
from math import inf
from time import monotonic, perf_counter

import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.envs import publish
from palaestra.envs.make import make_env
from palaestra.envs.painter import Way
from palaestra.envs.publish import LOOK_SECONDS, PublishedEnvs, Publisher
from palaestra.envs.scene import View, scene_of
from palaestra.envs.vector import InProcessEnvs
from palaestra.frames.demand import Demand
from palaestra.frames.lane import LaneOwner
from palaestra.frames.note import Numbers
from palaestra.frames.place import VARIABLE, lane_path
from palaestra.frames.reader import FrameReader
from palaestra.frames.writer import FrameWriter


class Painting:
    """A scene that counts how often it was looked at."""

    def __init__(self, tiles=4, content=None, error=None):
        self.tiles, self.content, self.error, self.looks = tiles, content, error, []

    def view(self, tile):
        self.looks.append(tile)
        if self.error is not None:
            raise self.error
        content = self.content if self.content is not None else np.full((8, 8, 3), tile, np.uint8)
        return View(content, 1.0, 2.0, 3)


@pytest.fixture
def lane(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with LaneOwner(lane_path("RUN"), 4, 64 * 64 * 3, 1.0) as owner:
        yield owner


@pytest.fixture
def writer(lane):
    made = FrameWriter(lane.descriptor, lane.about)
    yield made
    made.close()


@pytest.fixture
def reader(lane):
    made = FrameReader(lane.path)
    yield made
    made.close()


def want(reader, slots=range(4), fps=60.0, side=0, now=None):
    reader.want(Demand(fps, side, frozenset(slots), 1, 1), (now or monotonic()) + 2)


def test_nobody_watches_so_nothing_is_drawn(writer, reader):
    publisher, scene = Publisher(writer, 0.02, 64), Painting()
    began = monotonic()
    publisher.look(scene, 1)
    assert scene.looks == []
    assert publisher.due >= began + LOOK_SECONDS
    assert reader.beat().condition == "open"


def test_what_is_wanted_is_drawn_and_nothing_else(writer, reader):
    want(reader, slots=[1, 3, 900])
    publisher, scene = Publisher(writer, 1.0, 64), Painting()
    publisher.look(scene, 17)
    assert scene.looks == [1, 3]
    frame = reader.read(3)
    assert (frame.payload[0], frame.numbers.env_step, frame.numbers.length) == (3, 17, 3)
    assert reader.read(0) is None


def test_tiles_beyond_those_of_the_scene_are_not_drawn(writer, reader):
    want(reader)
    scene = Painting(tiles=2)
    Publisher(writer, 1.0, 64).look(scene, 1)
    assert scene.looks == [0, 1]


def test_a_process_of_several_writes_its_own_slot_and_leaves_the_beat_to_the_first(writer, reader):
    want(reader)
    Publisher(writer, 1.0, 64, first_slot=2).look(Painting(tiles=1), 1)
    assert reader.read(2) is not None
    assert reader.read(0) is None
    assert reader.beat() is None


@pytest.mark.fault("F6")
@pytest.mark.parametrize("side", [0, 32, 16])
def test_huge_pictures_are_made_small_before_they_leave(writer, reader, side):
    want(reader, slots=[0], side=side)
    Publisher(writer, 1.0, 64).look(Painting(content=np.broadcast_to(np.uint8(9), (4320, 7680, 3))), 1)
    frame = reader.read(0)
    assert 2 / 3 * (side or 64) <= max(frame.note.width, frame.note.height) <= min(64, 1.5 * (side or 64))
    assert set(frame.payload) == {9}


def test_a_renderer_that_raises_ends_the_live_view_with_one_message(writer, reader, caplog):
    want(reader)
    told = []
    publisher = Publisher(writer, 1.0, 64, on_failure=told.append)
    scene = Painting(error=RuntimeError("no display."))
    with caplog.at_level(logging.WARNING):
        publisher.look(scene, 1)
    assert publisher.due == inf
    assert told == ["RuntimeError: no display"]
    assert len(caplog.records) == 1
    assert (reader.beat().condition, reader.beat().reason) == ("failed", "RuntimeError: no display")
    publisher.close()
    assert reader.beat().condition == "failed"


def test_a_picture_that_finds_no_room_ends_the_live_view_too(writer, reader, monkeypatch, caplog):
    want(reader)
    publisher = Publisher(writer, 1.0, 64)
    publisher.look(Painting(content=b"x" * (64 * 64 * 3 + 1)), 1)
    assert publisher.due == inf
    assert "do not fit" in reader.beat().reason


def test_whoever_interrupts_is_not_swallowed(writer, reader):
    want(reader)
    with pytest.raises(KeyboardInterrupt):
        Publisher(writer, 1.0, 64).look(Painting(error=KeyboardInterrupt()), 1)


def test_the_end_is_said(writer, reader):
    publisher = Publisher(writer, 1.0, 64)
    publisher.close()
    assert reader.beat().condition == "closed"
    assert publisher.due == inf


def look_again(publisher, reader, now=None):
    want(reader, now=now)
    publisher.due = 0.0


def vector(count=4):
    return InProcessEnvs(lambda: make_env(EnvConfig(id="CartPole-v1")), count)


def played(envs, steps, on_step=lambda: None):
    out, told = np.zeros((envs.count, 4), np.float32), []
    envs.reset(range(envs.count), out)
    chance = np.random.default_rng(1)
    for _ in range(steps):
        result = envs.step(chance.integers(2, size=envs.count), out)
        told.append((out.tobytes(), list(result.rewards), [ending.episode for ending in result.endings]))
        on_step()
    return told, envs.capture()


def test_watched_environments_play_exactly_as_unwatched_ones(writer, reader, monkeypatch):
    seconds = itertools.count(1000.0, 0.02)  # however fast the machine is
    monkeypatch.setattr(publish, "monotonic", lambda: next(seconds))
    inner = vector()
    publisher = Publisher(writer, 1.0, 64)
    watched = PublishedEnvs(inner, scene_of(inner), publisher, 0, 4)
    seen = played(watched, 60, lambda: look_again(publisher, reader, now=next(seconds)))
    assert writer.frames > 40
    assert seen == played(vector(), 60)


def test_steps_and_episodes_of_the_run_are_in_the_beat(writer, reader):
    inner = vector()
    publisher = Publisher(writer, 1.0, 64)
    watched = PublishedEnvs(inner, scene_of(inner), publisher, steps_taken=1000, rows=8)
    told, _ = played(watched, 60, lambda: look_again(publisher, reader))
    beat = reader.beat()
    assert beat.env_steps == 1000 + 60 * 8
    assert beat.episodes == sum(len(endings) for _, _, endings in told) > 0


def test_steps_taken_elsewhere_count_and_copies_are_brought_up_to_date_only_to_be_looked_at(writer, reader):
    inner = vector()
    publisher = Publisher(writer, 1.0, 64)
    watched = PublishedEnvs(inner, scene_of(inner), publisher, steps_taken=1000, rows=8)
    watched.reset(range(4), np.zeros((4, 4), np.float32))
    brought = []
    rewards = np.full(4, 2.5, np.float32)
    publisher.due = inf
    watched.played(30, 2, rewards, lambda: brought.append("unseen"))
    assert brought == []
    publisher.due = 0.0
    watched.played(0, 0, rewards, lambda: brought.append("nobody looks"))
    assert brought == []
    inner.place(1, 9.0, 4)
    look_again(publisher, reader)
    watched.played(30, 1, rewards, lambda: brought.append("seen"))
    assert set(brought) == {"seen"}
    assert (reader.beat().env_steps, reader.beat().episodes) == (1000 + 60 * 8, 3)
    assert reader.read(1).numbers.reward == 2.5


def test_it_is_watched_from_the_first_look_that_finds_a_viewer_to_the_first_that_finds_none(writer, reader):
    inner = vector()
    publisher = Publisher(writer, 1.0, 64)
    envs = PublishedEnvs(inner, scene_of(inner), publisher, steps_taken=0, rows=4)
    publisher.look(Painting(), 1)
    assert not envs.is_watched
    want(reader)
    assert not envs.is_watched
    publisher.look(Painting(), 2)
    assert envs.is_watched
    want(reader, now=monotonic() - 100)
    publisher.look(Painting(), 3)
    assert not envs.is_watched


def test_what_can_no_longer_be_shown_is_not_watched(writer, reader):
    want(reader)
    publisher = Publisher(writer, 1.0, 64)
    publisher.look(Painting(error=RuntimeError("no display.")), 1)
    assert not publisher.is_watched


def test_the_share_of_time_is_measured(writer, reader):
    publisher, scene = Publisher(writer, 0.05, 64), Painting()
    ending = perf_counter() + 0.5
    while perf_counter() < ending:
        want(reader)
        if monotonic() >= publisher.due:
            publisher.look(scene, 1)
    beat = reader.beat()
    assert beat.frames == writer.frames > 1
    assert 0 < beat.cost < 0.06
    assert beat.seconds_watched == pytest.approx(0.5, abs=0.2)


def test_it_delegates_what_it_does_not_change(writer):
    inner = vector()
    watched = PublishedEnvs(inner, scene_of(inner), Publisher(writer, 1.0, 64), 0, 4)
    watched.reset(range(4), np.zeros((4, 4), np.float32))
    state = watched.capture()
    assert watched.why_inexact() == inner.why_inexact() == ""
    assert (watched.count, watched.interface) == (4, inner.interface)
    watched.restore(state)
    assert inner.capture() == state
    watched.close()


def test_nobody_watches_so_one_word_is_looked_at_ten_times_a_second(writer, monkeypatch):
    now, looks = [1000.0], []
    monkeypatch.setattr(publish, "monotonic", lambda: now[0])
    monkeypatch.setattr(writer, "demand", lambda _now: looks.append(now[0]))
    inner = vector()
    watched = PublishedEnvs(inner, scene_of(inner), Publisher(writer, 1.0, 64), 0, 4)
    out = np.zeros((4, 4), np.float32)
    watched.reset(range(4), out)
    for _ in range(1000):  # five seconds of two hundred steps
        now[0] += 0.005
        watched.step(np.zeros(4, np.int64), out)
    assert 45 <= len(looks) <= 51


class Beside:
    """A painter that writes down what it is told."""

    def __init__(self, way=Way.TELL, takes=99):
        self.way, self.takes, self.told, self.rested, self.is_closed = way, takes, [], 0, False

    def attend(self, now):
        return self.way

    def tell(self, tile, env_step, now):
        self.told.append((tile, env_step))
        return len(self.told) < self.takes

    def rest(self, now):
        self.rested += 1

    def close(self):
        self.is_closed = True


def test_what_a_painter_is_told_is_not_drawn_here(writer, reader):
    want(reader, slots=[0, 2])
    painter, scene = Beside(), Painting()
    Publisher(writer, 1.0, 64, painter=painter).look(scene, 17)
    assert painter.told == [(0, 17), (2, 17)]
    assert scene.looks == []


def test_frames_are_counted_where_they_are_written(lane, writer, reader):
    want(reader)
    publisher = Publisher(writer, 1.0, 64, painter=Beside())
    elsewhere = FrameWriter(lane.descriptor, lane.about)
    for slot in (0, 3, 3):
        elsewhere.write(slot, b"drawn elsewhere", Numbers(1, 0.0, 0.0, 1))
    elsewhere.close()
    publisher.look(Painting(), 1)
    assert reader.beat().frames == 3


def test_while_a_painter_comes_that_is_worth_waiting_for_nothing_is_drawn(writer, reader):
    want(reader)
    painter, scene = Beside(Way.WAIT), Painting()
    publisher = Publisher(writer, 1.0, 64, painter=painter)
    began = monotonic()
    publisher.look(scene, 1)
    assert (painter.told, scene.looks) == ([], [])
    assert publisher.due >= began + LOOK_SECONDS
    painter.way = Way.DRAW
    publisher.look(scene, 2)
    assert scene.looks


def test_a_painter_that_is_lost_in_the_middle_is_asked_no_more_in_this_round(writer, reader):
    want(reader)
    painter, scene = Beside(takes=2), Painting()
    publisher = Publisher(writer, 1.0, 64, painter=painter)
    publisher.look(scene, 1)
    assert (painter.told, scene.looks) == ([(0, 1), (1, 1)], [])
    painter.way = Way.DRAW
    publisher.look(scene, 2)
    assert scene.looks, "the view goes on"


def test_each_tile_is_told_as_often_as_is_wanted_and_not_more(writer, reader, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(publish, "monotonic", lambda: now[0])
    painter = Beside(takes=9999)
    publisher = Publisher(writer, 0.015, 64, painter=painter)
    for _ in range(1000):  # ten seconds of a hundred steps
        now[0] += 0.01
        want(reader, fps=15.0, now=now[0])
        if now[0] >= publisher.due:
            publisher.look(Painting(), 1)
    told = [sum(tile == each for tile, _ in painter.told) for each in range(4)]
    assert max(told) == min(told)
    assert 120 <= told[0] <= 151


def test_tiles_that_were_drawn_one_by_one_are_told_together(writer, reader, monkeypatch):
    now, rounds = [1000.0], []
    monkeypatch.setattr(publish, "monotonic", lambda: now[0])
    painter, scene = Beside(Way.DRAW, takes=9999), Painting()
    publisher = Publisher(writer, 0.015, 64, painter=painter)

    def slowly(tile):
        now[0] += 0.002
        return Painting.view(scene, tile)

    scene.view = slowly
    for count in range(2000):
        now[0] += 0.005
        want(reader, fps=15.0, now=now[0])
        painter.way = Way.DRAW if count < 1000 else Way.TELL
        if now[0] >= publisher.due:
            publisher.look(scene, 1)
            rounds.append(len(painter.told))
    assert 10 < len(scene.looks) < 50, "the budget spread them"
    per_round = [after - before for before, after in itertools.pairwise(rounds) if after > before]
    assert set(per_round[1:]) == {4}
    assert 60 <= len(per_round) <= 76, "in five seconds"


def test_telling_has_a_small_part_of_the_budget_of_drawing(writer, reader, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(publish, "monotonic", lambda: now[0])
    painter = Beside(takes=9999)
    tell = painter.tell

    def slowly(*given):
        now[0] += 0.01
        return tell(*given)

    painter.tell = slowly
    publisher = Publisher(writer, 0.02, 64, painter=painter)
    for _ in range(12_000):
        now[0] += 0.01
        want(reader, now=now[0])
        if now[0] >= publisher.due:
            publisher.look(Painting(), 1)
    assert 0.002 < reader.beat().cost <= 0.004  # of 0.003, and the first round is free


def test_without_viewers_a_painter_may_rest_and_it_goes_with_the_publisher(writer, reader):
    painter = Beside()
    publisher = Publisher(writer, 1.0, 64, painter=painter)
    publisher.look(Painting(), 1)
    assert (painter.rested, painter.told, painter.is_closed) == (1, [], False)
    publisher.close()
    assert painter.is_closed


def test_a_live_view_that_ends_takes_its_painter_along(writer, reader):
    want(reader)
    painter = Beside(Way.DRAW)
    Publisher(writer, 1.0, 64, painter=painter).look(Painting(error=RuntimeError("no display.")), 1)
    assert painter.is_closed
