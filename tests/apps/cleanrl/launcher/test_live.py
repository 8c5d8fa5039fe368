import time
from types import SimpleNamespace

import numpy as np
import pytest

from palaestra.apps.cleanrl.launcher.live import FELT, LOOK_SECONDS
from palaestra.apps.cleanrl.launcher.painter import Drawn
from palaestra.frames.demand import Demand


class Env:
    """Draws in a shade of its own, and counts how often."""

    def __init__(self, shade, seconds=0.0):
        self.shade, self.seconds, self.drawn = shade, seconds, 0
        self.unwrapped, self.render_mode = self, "rgb_array"

    def render(self):
        self.drawn += 1
        time.sleep(self.seconds)
        if self.shade is None:
            raise ValueError("no screen.")
        return np.full((8, 8, 3), self.shade, dtype=np.uint8)


def probe(shade, seconds=0.0):
    return SimpleNamespace(env=Env(shade, seconds), steps=5, reward=1.0, total=3.0, length=3, is_open=True)


def want(reader, *slots):
    reader.want(Demand(15.0, 64, frozenset(slots), 0, 0), time.monotonic() + 2)


def test_nobody_watches_and_nothing_is_drawn(lane_file, open_show):
    path, reader = lane_file
    show, env, now = open_show(path, 0.02, print), probe(1), time.monotonic()
    show.figures = lambda: (40, 2)
    assert show.look({0: env}, now) == now + LOOK_SECONDS
    assert env.env.drawn == 0
    assert (reader.beat().env_steps, reader.beat().episodes) == (40, 2)


def test_those_that_are_wanted_are_drawn_each_into_its_slot(lane_file, open_show):
    path, reader = lane_file
    show = open_show(path, 1.0, print)
    want(reader, 1, 2)
    probes = {0: probe(10), 1: probe(11), 2: probe(12), 9: probe(19)}
    show.look(probes, time.monotonic())
    assert [probes[slot].env.drawn for slot in (0, 1, 2, 9)] == [0, 1, 1, 0]
    assert (reader.read(1).payload[0], reader.read(2).payload[0]) == (11, 12)
    assert reader.read(1).numbers.total_reward == 3.0


def test_what_drawing_costs_is_earned_before_it_is_spent_again(lane_file, open_show):
    path, reader = lane_file
    show, one = open_show(path, 0.01, print), probe(1, seconds=0.01)
    now = time.monotonic()
    reader.want(Demand(60.0, 64, frozenset({0}), 0, 0), now + 9)
    times = [now + step / 100 for step in range(800)]  # eight seconds
    for moment in times:
        show.look({0: one}, moment)
    assert 4 <= one.env.drawn <= 10, "eight seconds at a hundredth are eight pictures of ten milliseconds"


def test_a_lane_that_is_not_there_yet_is_looked_for_again(tmp_path, open_show):
    show, now = open_show(tmp_path / "later.lane", 0.02, print), time.monotonic()
    assert show.look({0: probe(1)}, now) == now + LOOK_SECONDS


def test_what_cannot_be_drawn_ends_the_live_view_and_nothing_else(lane_file, open_show):
    path, reader = lane_file
    said = []
    show = open_show(path, 0.02, lambda *message: said.append(message))
    show.figures = lambda: (40, 2)
    want(reader, 0)
    assert show.look({0: probe(None)}, time.monotonic()) == float("inf")
    assert said == [("unseen", "ValueError: no screen")]
    assert (reader.beat().condition, reader.beat().reason) == ("failed", "ValueError: no screen")


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_an_environment_in_a_process_of_its_own_gets_its_part_of_the_budget(lane_file, is_elsewhere, open_show):
    path, _ = lane_file
    show = open_show(path, 0.3, print)
    show.figures = lambda: (1, 1)
    show._owner -= is_elsewhere
    show.look({}, time.monotonic())
    assert show._budget == pytest.approx(0.1 if is_elsewhere else 0.3)
    assert (show.figures is None) == is_elsewhere


class Painter:
    """Draws at once, for as long as it says."""

    def __init__(self, seconds=0.0):
        self.is_ready, self.is_busy, self.comes = True, False, False
        self.seconds, self.rounds, self.rests, self._drawn = seconds, [], 0, Drawn(0, 0.0)

    def attend(self, env, now):
        drawn, self._drawn = self._drawn, Drawn(0, 0.0)
        return drawn

    def is_coming(self, now):
        return self.comes

    def tell(self, tiles, now):
        self.rounds.append({slot: numbers for slot, (_, numbers) in tiles.items()})
        self._drawn = Drawn(len(tiles), self.seconds)

    def rest(self, now):
        self.rests += 1

    def close(self):
        pass


def test_a_painter_is_told_all_wanted_tiles_at_once_and_nothing_is_drawn_here(lane_file, open_show):
    path, reader = lane_file
    painter = Painter()
    show = open_show(path, 0.02, print, painter)
    show.figures = lambda: (40, 2)
    want(reader, 0, 1)
    probes = {0: probe(10), 1: probe(11), 2: probe(12)}
    now = time.monotonic()
    assert show.look(probes, now) == pytest.approx(now + 1 / 15, abs=1e-3)
    assert painter.rounds == [{0: (5, 1.0, 3.0, 3), 1: (5, 1.0, 3.0, 3)}]
    assert [probes[slot].env.drawn for slot in range(3)] == [0, 0, 0]
    show.look({}, now + 0.05)
    show.look(probes, now + 0.1)
    assert reader.beat().frames == 2, "what the painter has drawn is counted here"


def test_what_is_felt_of_a_painters_work_is_earned_first(lane_file, open_show):
    path, reader = lane_file
    painter = Painter(seconds=0.04)
    show, now = open_show(path, 0.01, print, painter), time.monotonic()
    reader.want(Demand(60.0, 64, frozenset({0}), 0, 0), now + 9)
    for step in range(800):  # eight seconds
        show.look({0: probe(1)}, now + step / 100)
    assert FELT * 0.04 == 0.01
    assert 5 <= len(painter.rounds) <= 10, "eight seconds at a hundredth are eight rounds of ten milliseconds"


def test_a_busy_painter_is_told_nothing_more(lane_file, open_show):
    path, reader = lane_file
    painter = Painter()
    painter.is_busy = True
    want(reader, 0)
    open_show(path, 0.02, print, painter).look({0: probe(1)}, time.monotonic())
    assert painter.rounds == []


@pytest.mark.parametrize("is_coming", [True, False])
def test_until_the_painter_is_there_pictures_are_put_off_and_then_drawn_here(lane_file, open_show, is_coming):
    path, reader = lane_file
    painter, one = Painter(), probe(1)
    painter.is_ready, painter.comes = False, is_coming
    want(reader, 0)
    open_show(path, 0.02, print, painter).look({0: one}, time.monotonic())
    assert one.env.drawn == (0 if is_coming else 1)


def test_a_painter_rests_when_nobody_watches(lane_file, open_show):
    path, _ = lane_file
    painter = Painter()
    open_show(path, 0.02, print, painter).look({0: probe(1)}, time.monotonic())
    assert painter.rests == 1
