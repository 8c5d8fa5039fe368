import time
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from palaestra.apps.scripts.launcher.live import RETRY_SECONDS, ProbeSource, needs_every_core, script_view
from palaestra.rendering.frame_format import Demand


class Env:
    """Renders in a shade of its own, and counts how often."""

    def __init__(self, shade, seconds=0.0):
        self.shade, self.seconds, self.rendered = shade, seconds, 0
        self.unwrapped, self.render_mode = self, "rgb_array"

    def render(self):
        self.rendered += 1
        time.sleep(self.seconds)
        if self.shade is None:
            raise ValueError("no screen.")
        return np.full((8, 8, 3), self.shade, dtype=np.uint8)


def probe(shade, seconds=0.0):
    return SimpleNamespace(env=Env(shade, seconds), steps=5, reward=1.0, total=3.0, length=3, is_open=True)


def want(reader, *slots):
    reader.request(Demand(15.0, 64, frozenset(slots), 0, 0), time.monotonic() + 2)


@pytest.mark.parametrize(
    ("cores", "omp_threads", "expected"),
    [(2, "", True), (2, "2", True), (2, "1", False), (1, "1", True), (8, "", False), (2, "nonsense", True)],
)
def test_a_script_takes_every_core_of_two_unless_it_has_fewer_threads(cores, omp_threads, expected):
    assert needs_every_core(cores, omp_threads) is expected


def test_without_a_viewer_nothing_is_rendered(frame_buffer, open_view):
    path, reader = frame_buffer
    view, one, now = open_view(path, 0.02, print), probe(1), time.monotonic()
    view.figures = lambda: (40, 2)
    assert view.check({0: one}, now) >= now
    assert one.env.rendered == 0
    assert (reader.heartbeat().env_steps, reader.heartbeat().episodes) == (40, 2)


def test_those_that_are_wanted_are_rendered_each_into_its_slot(frame_buffer, open_view):
    path, reader = frame_buffer
    view = open_view(path, 1.0, print)
    want(reader, 1, 2)
    probes = {0: probe(10), 1: probe(11), 2: probe(12), 9: probe(19)}
    view.check(probes, time.monotonic())
    assert [probes[slot].env.rendered for slot in (0, 1, 2, 9)] == [0, 1, 1, 0]
    assert (reader.read(1).payload[0], reader.read(2).payload[0]) == (11, 12)
    assert reader.read(1).numbers.total_reward == 3.0


def test_a_frame_buffer_that_is_not_there_yet_is_searched_for_again(tmp_path, open_view):
    view, now = open_view(tmp_path / "later.frames", 0.02, print), time.monotonic()
    assert view.check({0: probe(1)}, now) == now + RETRY_SECONDS


def test_what_cannot_be_rendered_ends_the_live_view_and_nothing_else(frame_buffer, open_view):
    path, reader = frame_buffer
    messages = []
    view = open_view(path, 0.02, lambda *message: messages.append(message))
    view.figures = lambda: (40, 2)
    want(reader, 0)
    assert view.check({0: probe(None)}, time.monotonic()) == float("inf")
    assert messages == [("live_view_failed", "ValueError: no screen")]
    assert (reader.heartbeat().condition, reader.heartbeat().reason) == ("failed", "ValueError: no screen")


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_an_environment_in_a_process_of_its_own_writes_no_heartbeat(frame_buffer, is_elsewhere, open_view):
    path, reader = frame_buffer
    view = open_view(path, 0.3, print)
    view.figures = lambda: (1, 1)
    view._owner -= is_elsewhere
    view.check({}, time.monotonic())
    assert (reader.heartbeat() is None) == is_elsewhere


def test_a_copy_is_made_by_gymnasium_from_what_the_script_requested():
    source = ProbeSource()
    env = gymnasium.make("CartPole-v1")
    source.probes = {3: SimpleNamespace(env=env)}
    assert source.slots() == [3]
    found, recipe = source.describable(3)
    assert found is env
    assert '"id": "CartPole-v1"' in recipe()["spec"]
    env.close()


def test_a_view_of_a_script_has_a_render_process_that_is_not_started_before_there_is_a_viewer(frame_buffer):
    path, _ = frame_buffer
    view = script_view(path, 0.02, print)
    view.check({0: probe(1)}, time.monotonic())
    assert view._client.pid is None
    view.close()
