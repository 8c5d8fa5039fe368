import itertools
from math import inf
from time import monotonic

import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.envs.frame_sources import frame_source
from palaestra.envs.make import make_env
from palaestra.envs.vector import published
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.rendering import live_view
from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import LiveView


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


def patch_clock(monkeypatch, clock):
    monkeypatch.setattr(published, "monotonic", clock)
    monkeypatch.setattr(live_view, "monotonic", clock)


def check_again(view, reader, now=None):
    want(reader, now=now)
    view.due = 0.0


def vector(count=4):
    return InProcessEnvs(lambda: make_env(EnvConfig(id="CartPole-v1")), count)


def played(envs, steps, on_step=lambda: None):
    out, reports = np.zeros((envs.count, 4), np.float32), []
    envs.reset(range(envs.count), out)
    chance = np.random.default_rng(1)
    for _ in range(steps):
        result = envs.step(chance.integers(2, size=envs.count), out)
        reports.append((out.tobytes(), list(result.rewards), [ending.episode for ending in result.endings]))
        on_step()
    return reports, envs.capture()


def test_watched_environments_play_exactly_as_unwatched_ones(writer, reader, monkeypatch):
    seconds = itertools.count(1000.0, 0.02)  # however fast the machine is
    patch_clock(monkeypatch, lambda: next(seconds))
    inner = vector()
    view = LiveView(writer, 1.0, 64)
    watched = PublishedEnvs(inner, frame_source(inner), view, 0, 4)
    seen = played(watched, 60, lambda: check_again(view, reader, now=next(seconds)))
    assert writer.frames > 40
    assert seen == played(vector(), 60)


def test_steps_and_episodes_of_the_run_are_in_the_beat(writer, reader):
    inner = vector()
    view = LiveView(writer, 1.0, 64)
    watched = PublishedEnvs(inner, frame_source(inner), view, steps_taken=1000, rows=8)
    reports, _ = played(watched, 60, lambda: check_again(view, reader))
    beat = reader.heartbeat()
    assert beat.env_steps == 1000 + 60 * 8
    assert beat.episodes == sum(len(endings) for _, _, endings in reports) > 0


def test_steps_of_an_engine_count_and_environments_are_updated_only_when_shown(writer, reader):
    inner = vector()
    view = LiveView(writer, 1.0, 64)
    watched = PublishedEnvs(inner, frame_source(inner), view, steps_taken=1000, rows=8)
    watched.reset(range(4), np.zeros((4, 4), np.float32))
    brought = []
    rewards = np.full(4, 2.5, np.float32)
    view.due = inf
    watched.record_steps(30, 2, rewards, lambda: brought.append("unseen"))
    assert brought == []
    view.due = 0.0
    watched.record_steps(0, 0, rewards, lambda: brought.append("nobody looks"))
    assert brought == []
    inner.set_episode_progress(1, 9.0, 4)
    check_again(view, reader)
    watched.record_steps(30, 1, rewards, lambda: brought.append("seen"))
    assert set(brought) == {"seen"}
    assert (reader.heartbeat().env_steps, reader.heartbeat().episodes) == (1000 + 60 * 8, 3)
    assert reader.read(1).numbers.reward == 2.5


def test_is_watched_follows_the_checks_for_viewers(writer, reader):
    inner = vector()
    view = LiveView(writer, 1.0, 64)
    envs = PublishedEnvs(inner, frame_source(inner), view, steps_taken=0, rows=4)
    envs.reset(range(4), np.zeros((4, 4), np.float32))
    view.check(frame_source(inner))
    assert not envs.is_watched
    want(reader)
    assert not envs.is_watched
    view.check(frame_source(inner))
    assert envs.is_watched
    want(reader, now=monotonic() - 100)
    view.check(frame_source(inner))
    assert not envs.is_watched


def test_it_delegates_what_it_does_not_change(writer):
    inner = vector()
    watched = PublishedEnvs(inner, frame_source(inner), LiveView(writer, 1.0, 64), 0, 4)
    watched.reset(range(4), np.zeros((4, 4), np.float32))
    state = watched.capture()
    assert watched.why_inexact() == inner.why_inexact() == ""
    assert (watched.count, watched.interface) == (4, inner.interface)
    watched.restore(state)
    assert inner.capture() == state
    watched.close()


def test_without_a_viewer_one_word_is_read_ten_times_a_second(writer, monkeypatch):
    now, looks = [1000.0], []
    patch_clock(monkeypatch, lambda: now[0])
    monkeypatch.setattr(writer, "demand", lambda _now: looks.append(now[0]))
    inner = vector()
    watched = PublishedEnvs(inner, frame_source(inner), LiveView(writer, 1.0, 64), 0, 4)
    out = np.zeros((4, 4), np.float32)
    watched.reset(range(4), out)
    for _ in range(1000):  # five seconds of two hundred steps
        now[0] += 0.005
        watched.step(np.zeros(4, np.int64), out)
    assert 45 <= len(looks) <= 51
