from __future__ import annotations

import av
import numpy as np
import pytest

from palaestra.core.errors import RunFailed
from palaestra.evaluation.video import VideoFile, frame_rate_of


def decoded(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return frames, float(stream.average_rate), stream.codec_context.name, stream.codec_context.pix_fmt


@pytest.mark.parametrize(("height", "width"), [(64, 96), (65, 97), (33, 64)])
def test_pictures_come_back_in_order_and_nearly_as_they_were(tmp_path, height, width):
    path = tmp_path / "a.mp4"
    shades = [0, 80, 160, 240, 40]
    with VideoFile(path, 25) as video:
        for shade in shades:
            video.add(np.full((height, width, 3), shade, np.uint8))
    frames, rate, codec, pixels = decoded(path)
    assert (rate, codec, pixels) == (25.0, "h264", "yuv420p")
    assert frames[0].shape == (height + height % 2, width + width % 2, 3)
    assert [frame.mean() for frame in frames] == pytest.approx(shades, abs=4)


def test_colours_are_not_swapped(tmp_path):
    path = tmp_path / "red.mp4"
    with VideoFile(path, 30) as video:
        video.add(np.full((32, 32, 3), (220, 30, 30), np.uint8))
    red, green, blue = decoded(path)[0][0].mean(axis=(0, 1))
    assert red > 200
    assert max(green, blue) < 60


def test_a_failure_leaves_no_file_and_no_draft(tmp_path):
    with pytest.raises(ZeroDivisionError), VideoFile(tmp_path / "a.mp4", 30) as video:
        video.add(np.zeros((32, 32, 3), np.uint8))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_no_picture_is_no_video(tmp_path):
    with VideoFile(tmp_path / "a.mp4", 30):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_video_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"old")
    with VideoFile(path, 30) as video:
        video.add(np.zeros((32, 32, 3), np.uint8))
        assert path.read_bytes() == b"old"
    assert len(decoded(path)[0]) == 1


def test_pictures_that_change_size_are_refused(tmp_path):
    with pytest.raises(RunFailed, match="32x32 to 64x32"), VideoFile(tmp_path / "a.mp4", 30) as video:
        video.add(np.zeros((32, 32, 3), np.uint8))
        video.add(np.zeros((32, 64, 3), np.uint8))


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (50, 50.0),
        (12.5, 12.5),
        (np.int64(20), 20.0),
        (None, 30.0),
        ("x", 30.0),
        (0, 30.0),
        (-1, 30.0),
        (float("nan"), 30.0),
    ],
)
def test_the_frame_rate_is_the_environments_when_it_is_one(said, taken):
    assert frame_rate_of({"render_fps": said}) == taken
    assert frame_rate_of({}) == 30.0
