from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from palaestra.apps.scripts.launcher.videos import (
    MODULES,
    FrameRecording,
    as_image,
    install_moviepy_substitute,
    is_wanted,
    record_video_if,
)
from palaestra.apps.scripts.videos import read_frames
from palaestra.rendering.offscreen import prepare_rendering


def test_images_come_back_as_they_were_also_when_their_size_changes(tmp_path):
    rng = np.random.default_rng(1)
    sizes = [(4, 6), (4, 6), (5, 2), (4, 6)]
    frames = [rng.integers(0, 255, (*size, 3), dtype=np.uint8) for size in sizes]
    video = FrameRecording(tmp_path / "a.frames")
    for frame in frames:
        video.add(frame)
    video.close()
    found = list(read_frames(video.path))
    assert len(found) == len(frames)
    assert all(np.array_equal(one, other) for one, other in zip(found, frames, strict=True))


def test_only_rgb_arrays_are_accepted_as_images():
    frame = np.zeros((2, 2, 3), dtype=np.uint8)
    assert as_image([frame, frame + 1]).max() == 1
    assert as_image(frame.astype(float)).dtype == np.uint8
    assert [as_image(one) for one in (None, [], "ascii", np.zeros((2, 2)))] == [None] * 4


@pytest.fixture
def messages(monkeypatch):
    """With a MoviePy that puts pictures aside."""
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    messages = []
    install_moviepy_substitute(lambda *message: messages.append(message))
    prepare_rendering("rgb_array")
    return messages


def make():
    return gymnasium.make("CartPole-v1", render_mode="rgb_array")


def play(env):
    """One episode; how many pictures there are of it."""
    env.reset(seed=1)
    steps, ended = 0, False
    while not ended:
        _, _, terminated, truncated, _ = env.step(0)
        steps, ended = steps + 1, terminated or truncated
    return steps + 1


def test_an_episode_is_recorded_with_every_image_of_it(messages, tmp_path):
    record = record_video_if(gymnasium.wrappers.RecordVideo, lambda: True, None)
    env = record(make(), str(tmp_path / "films"))
    frames = play(env)
    env.close()
    ((kind, aside, video, rate),) = messages
    assert (kind, Path(video).name, rate) == ("video", "rl-video-episode-0.mp4", 50.0)
    assert sum(1 for _ in read_frames(Path(aside))) == frames


def test_without_the_switch_no_video_is_recorded(messages, tmp_path):
    env = make()
    assert record_video_if(gymnasium.wrappers.RecordVideo, lambda: False, None)(env, str(tmp_path / "films")) is env
    assert list(tmp_path.iterdir()) == []
    env.close()


def test_wandb_finds_the_last_video_when_it_is_there_and_none_otherwise(messages, tmp_path):
    reported = []
    record = record_video_if(gymnasium.wrappers.RecordVideo, lambda: True, lambda *message: reported.append(message))
    env = record(make(), str(tmp_path / "films"))
    assert not env.enabled
    play(env)
    (tmp_path / "films" / "rl-video-episode-0.mp4").write_bytes(b"as MoviePy would have it")
    env.close()
    assert env.enabled
    assert reported == [("video", "", env.path, 0.0)]


def test_the_scripts_own_switch_decides_where_it_has_one():
    assert is_wanted({"args": SimpleNamespace(capture_video=True)})
    assert not is_wanted({"args": SimpleNamespace(capture_video=False)})
    assert is_wanted({"args": SimpleNamespace()})
    assert is_wanted({})


@pytest.fixture
def clip(monkeypatch):
    """What Gymnasium imports, and what was said about films."""
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    messages = []
    install_moviepy_substitute(lambda *message: messages.append(message))
    return importlib.import_module("moviepy.video.io.ImageSequenceClip").ImageSequenceClip, messages


def test_images_are_put_aside_in_their_order_and_reported(clip, tmp_path):
    make, messages = clip
    frames = [np.full((4, 6, 3), shade, dtype=np.uint8) for shade in (3, 9, 3)]
    made = make(frames, fps=50)
    made.write_videofile(str(tmp_path / "a.mp4"), logger=None)
    made.close()
    aside = tmp_path / "a.mp4.frames"
    assert messages == [("video", str(aside), str(tmp_path / "a.mp4"), 50.0)]
    assert [frame[0, 0, 0] for frame in read_frames(aside)] == [3, 9, 3]


def test_frames_that_are_no_images_are_skipped(clip, tmp_path):
    make, messages = clip
    make([np.zeros((4, 6)), np.zeros((4, 6, 3), dtype=np.uint8)]).write_videofile(tmp_path / "b.mp4")
    assert len(list(read_frames(tmp_path / "b.mp4.frames"))) == 1
    assert messages[0][3] == 0.0
