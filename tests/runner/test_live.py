import errno
import os
import shutil
from contextlib import closing
from math import inf
from pathlib import Path
from time import monotonic

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from palaestra.config.train import LiveConfig
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, all_frame_buffers, frame_buffer_path, roles_of
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.runner import live as module
from palaestra.runner.find_run import HARMLESS
from palaestra.runner.live import live_view
from palaestra.training.distributed.reports import weights_digest
from palaestra.training.trainer import train


@pytest.fixture
def bench_with(make_bench, small_config, tmp_path):
    """A run with such a live view; the one made before must be over."""

    def make(**live):
        runs = tmp_path / "runs"
        if runs.exists():
            shutil.rmtree(runs)  # all of them have one name
        return make_bench(small_config(live=live))

    return make


@pytest.fixture(autouse=True)
def lanes(tmp_path, monkeypatch) -> Path:
    location = tmp_path / "lanes"
    location.mkdir()
    monkeypatch.setenv(VARIABLE, str(location))
    return location


def test_while_it_lasts_the_environments_can_be_watched_and_then_all_is_as_before(bench_with):
    bench = bench_with()
    inner = bench.state.envs
    with live_view(bench.state, bench.session):
        assert isinstance(bench.state.envs, PublishedEnvs)
        assert roles_of(bench.directory.id) == ["train"]
        reader = FrameReader(frame_buffer_path(bench.directory.id))
        assert reader.slot_count == inner.count
    assert bench.state.envs is inner
    assert all_frame_buffers() == []
    assert reader.heartbeat().condition == "closed"
    reader.close()


def test_a_failure_of_the_run_also_removes_the_frame_buffer(bench_with):
    bench = bench_with()
    with pytest.raises(ZeroDivisionError), live_view(bench.state, bench.session):
        raise ZeroDivisionError
    assert all_frame_buffers() == []


def test_switched_off_there_is_no_frame_buffer(bench_with):
    bench = bench_with(enabled=False)
    with live_view(bench.state, bench.session):
        assert all_frame_buffers() == []
        assert not isinstance(bench.state.envs, PublishedEnvs)


def test_the_number_of_tiles_is_limited(bench_with):
    bench = bench_with(tiles=1)
    with live_view(bench.state, bench.session):
        reader = FrameReader(frame_buffer_path(bench.directory.id))
        assert (reader.slot_count, reader.about.capacity) == (1, 3 * LiveConfig().largest_side ** 2)
        reader.close()


def trained(bench, check=lambda: None):
    """Weights and reports of a whole training; wall time is no part of it."""
    reports = []
    with live_view(bench.state, bench.session):
        for report in train(bench.state):
            reports.append((report.iteration, report.env_steps, report.update, report.episodes))
            check()
    return weights_digest(bench.state.algorithm.policy()), reports, bench.state.capture()["envs"]


def test_watched_unwatched_and_switched_off_trainings_are_equal_to_the_last_bit(bench_with):
    off = trained(bench_with(enabled=False))
    unwatched = trained(bench_with())
    bench = bench_with(budget=1.0)
    frames = []

    def check():
        reader = FrameReader(frame_buffer_path(bench.directory.id))
        reader.request(Demand(60.0, 0, frozenset({0, 1}), 1, 1), monotonic() + 2)
        frames.append(reader.heartbeat().frames if reader.heartbeat() else 0)
        reader.close()
        bench.state.envs._view.due = 0.0  # the whole training takes less time than one look for viewers

    watched = trained(bench, check)
    assert frames[-1] > 0
    assert off == unwatched == watched


@pytest.mark.fault("F1")
def test_without_room_for_a_frame_buffer_the_run_goes_on_and_says_so_once(bench_with, monkeypatch, caplog):
    def full(*_given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    without = trained(bench_with(enabled=False))
    monkeypatch.setattr(module, "FrameBufferOwner", full)
    bench = bench_with()
    assert trained(bench) == without
    assert [entry.data["reason"] for entry in bench.entries("frames.failed")] == ["No space left on device"]
    assert len([record for record in caplog.records if "cannot be watched" in record.message]) == 1
    assert bench.entries("frames.failed")[0].level == "warning"


@pytest.mark.fault("F2")
def test_a_frame_buffer_that_a_dead_run_left_under_the_same_name_is_swept(bench_with):
    bench = bench_with()
    left = FrameBufferOwner(frame_buffer_path(bench.directory.id), 1, 1000, started_at=-1.0)
    os.close(left.descriptor)
    with live_view(bench.state, bench.session):
        assert isinstance(bench.state.envs, PublishedEnvs)
    assert bench.entries("frames.failed") == []
    assert all_frame_buffers() == []


def test_the_live_view_may_change_when_a_run_goes_on():
    assert "live." in HARMLESS


class Unpaintable(CartPoleEnv):
    """Plays as CartPole does, and cannot be drawn."""

    def render(self):
        raise OSError(5, "the graphics card is on fire")


if "UnpaintableForTests-v0" not in gymnasium.registry:
    gymnasium.register("UnpaintableForTests-v0", Unpaintable, max_episode_steps=500)


def test_a_renderer_that_raises_ends_the_live_view_and_changes_nothing_else(
    bench_with, make_bench, small_config, caplog, tmp_path
):
    without = trained(bench_with(enabled=False))
    shutil.rmtree(tmp_path / "runs")
    bench = make_bench(small_config(env={"id": "UnpaintableForTests-v0"}))

    def check():
        with closing(FrameReader(frame_buffer_path(bench.directory.id))) as reader:
            reader.request(Demand(60.0, 0, frozenset({0, 1}), 1, 1), monotonic() + 2)
        if bench.state.envs._view.due < inf:
            bench.state.envs._view.due = 0.0

    assert trained(bench, check)[:2] == without[:2]
    assert [entry.data["role"] for entry in bench.entries("frames.failed")] == ["train"]
    assert "the graphics card is on fire" in bench.entries("frames.failed")[0].data["reason"]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
