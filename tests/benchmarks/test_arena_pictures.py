import re

import arena_pictures
import numpy as np

from palaestra.apps.arena.reference import World
from palaestra.apps.arena.replay import ReplayRecorder
from palaestra.apps.arena.settings import read_settings
from palaestra.core.episodes import EpisodeResult


class Metrics:
    """Later episodes make more."""

    def __init__(self, _path):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass

    def episodes(self):
        return [
            EpisodeResult(None, 0.0, 9, False, env_step=step, extras={"ore": step, "battery": step / 2, "heart": 1.0})
            for step in range(10, 1001, 10)
        ]


def test_a_curve_rises_where_more_is_made(monkeypatch, tmp_path):
    monkeypatch.setattr(arena_pictures, "MetricsReader", Metrics)
    svg = arena_pictures.curve(tmp_path)
    lines = [
        np.array([[float(part) for part in point.split(",")] for point in points.split()])
        for points in re.findall(r'points="([^"]*)"', svg)
    ]
    ore, battery, heart = lines
    assert (np.diff(ore[:, 0]) > 0).all()
    assert (np.diff(ore[:, 1]) < 0).all()  # up is less
    assert (battery[1:, 1] > ore[1:, 1]).all()
    assert np.ptp(heart[:, 1]) == 0


def test_a_video_has_the_frames_of_the_episode(tmp_path, monkeypatch):
    monkeypatch.setattr(arena_pictures, "FRAMES", 5)
    settings = read_settings({"width": 9, "height": 9, "max_steps": 6, "mine": {"count": 1}, "altar": {"count": 1}})
    world = World(settings, 3)
    with ReplayRecorder(tmp_path / "r.json.gz", settings, 3, {}) as recorder:
        recorder.add(world.state(), np.zeros(1, np.float32))
        for _ in range(6):
            rewards = world.step([1])
            recorder.add(world.state(), rewards)
        recorder.finish()
    arena_pictures.film(tmp_path / "r.json.gz", tmp_path / "film.webp")
    data = (tmp_path / "film.webp").read_bytes()
    assert (data[:4], data[8:12]) == (b"RIFF", b"WEBP")
    assert data.count(b"ANMF") >= 2
