from __future__ import annotations

import os
import tempfile

import av
import numpy as np
import pytest

from palaestra.core.errors import RunFailed
from palaestra.evaluation.video import (
    BACKGROUND,
    DIMMED,
    GAP,
    LARGEST,
    FrameSpool,
    Mosaic,
    VideoFile,
    dim,
    frame_rate_of,
    mosaic_for,
)


def decoded(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return frames, float(stream.average_rate), stream.codec_context.name, stream.codec_context.pix_fmt


@pytest.mark.parametrize(("height", "width"), [(64, 96), (65, 97), (33, 64)])
def test_frames_come_back_in_order_and_nearly_as_they_were(tmp_path, height, width):
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


def test_a_failure_leaves_no_file_and_no_temporary_file(tmp_path):
    with pytest.raises(ZeroDivisionError), VideoFile(tmp_path / "a.mp4", 30) as video:
        video.add(np.zeros((32, 32, 3), np.uint8))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_no_frame_is_no_video(tmp_path):
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


def test_frames_that_change_size_are_refused(tmp_path):
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


def plain(height, width, shade):
    return np.full((height, width, 3), shade, np.uint8)


@pytest.mark.parametrize(
    ("count", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (3, 2, 2), (4, 2, 2), (5, 2, 3), (9, 3, 3), (10, 3, 4)]
)
def test_there_is_a_place_for_everyone_and_hardly_more(count, rows, columns):
    mosaic = mosaic_for(count, plain(10, 10, 0))
    assert (mosaic.rows, mosaic.columns) == (rows, columns)
    assert count <= rows * columns < count + columns


@pytest.mark.parametrize("size", [(400, 600), (2160, 3840), (4000, 10), (10, 4000), (1, 1)])
@pytest.mark.parametrize("count", [1, 2, 9, 64])
def test_the_whole_is_never_too_large_and_nothing_is_made_larger(size, count):
    mosaic = mosaic_for(count, plain(*size, 0))
    whole = mosaic.compose([])
    assert whole.shape[0] <= max(LARGEST[0], mosaic.rows * (1 + GAP))
    assert whole.shape[1] <= max(LARGEST[1], mosaic.columns * (1 + GAP))
    assert 1 <= mosaic.height <= size[0]
    assert 1 <= mosaic.width <= size[1]


def test_tiles_stand_in_reading_order_with_gaps_and_empty_places():
    mosaic = Mosaic(2, 2, 3, 5)
    whole = mosaic.compose([plain(3, 5, shade) for shade in (50, 100, 150)])
    assert whole.shape == (6 + GAP, 10 + GAP, 3)
    assert (whole[:3, :5] == 50).all()
    assert (whole[:3, 5 + GAP :] == 100).all()
    assert (whole[3 + GAP :, :5] == 150).all()
    assert (whole[3 + GAP :, 5 + GAP :] == BACKGROUND).all()
    assert (whole[3 : 3 + GAP] == BACKGROUND).all()
    assert (whole[:, 5 : 5 + GAP] == BACKGROUND).all()


def test_a_frame_of_the_tiles_size_is_left_alone():
    image = np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8)
    assert (Mosaic(1, 1, 7, 9).fit(image) == image).all()


def test_another_shape_is_put_in_the_middle_with_bars():
    tile = Mosaic(1, 1, 10, 20).fit(plain(10, 10, 200))
    assert (tile[:, 5:15] == 200).all()
    assert (tile[:, :5] == BACKGROUND).all()
    assert (tile[:, 15:] == BACKGROUND).all()


def test_a_small_frame_is_enlarged_by_whole_pixels():
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    tile = Mosaic(1, 1, 5, 5).fit(image)
    assert (tile[0:2, 0:2] == image[0, 0]).all()
    assert (tile[2:4, 2:4] == image[1, 1]).all()
    assert (tile[4] == BACKGROUND).all()


def test_shrinking_averages_what_falls_together():
    image = np.zeros((4, 4, 3), np.uint8)
    image[:2, :2] = [[[0], [100]], [[100], [200]]]
    assert Mosaic(1, 1, 2, 2).fit(image)[0, 0].tolist() == [100, 100, 100]


@pytest.mark.parametrize(("before", "after"), [((30, 50), (17, 29)), ((400, 600), (133, 199)), ((7, 7), (1, 1))])
def test_shrinking_keeps_the_mean(before, after):
    image = np.random.default_rng(1).integers(0, 256, (*before, 3), np.uint8)
    mosaic = Mosaic(1, 1, *after)
    scale = min(after[0] / before[0], after[1] / before[1])
    height, width = int(before[0] * scale + 1e-9), int(before[1] * scale + 1e-9)
    top, left = (after[0] - height) // 2, (after[1] - width) // 2
    shrunk = mosaic.fit(image)[top : top + height, left : left + width]
    assert shrunk.mean() == pytest.approx(image.mean(), abs=1)


def test_what_has_ended_is_darker_and_the_original_is_left_alone():
    image = plain(2, 2, 200)
    assert (dim(image) == int(200 * DIMMED)).all()
    assert (image == 200).all()


def test_frames_come_back_bit_for_bit_in_order():
    generator = np.random.default_rng(0)
    frames = [generator.integers(0, 256, (9, 13, 3), np.uint8) for _ in range(20)]
    with FrameSpool() as spool:
        for image in frames:
            spool.add(image)
        assert all((one == other).all() for one, other in zip(spool.frames(), frames, strict=True))
        assert spool.count == 20


def test_a_frame_that_is_drawn_over_later_is_stored_as_it_was():
    image = np.zeros((2, 2, 3), np.uint8)
    with FrameSpool() as spool:
        for shade in (1, 2, 3):
            image[:] = shade
            spool.add(image)
        assert [int(one[0, 0, 0]) for one in spool.frames()] == [1, 2, 3]


def test_nothing_comes_back_as_nothing():
    with FrameSpool() as spool:
        assert list(spool.frames()) == []


def test_no_file_is_left_to_be_observed_and_still_scenes_take_next_to_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = FrameSpool()
    for _ in range(100):
        spool.add(np.full((200, 300, 3), 77, np.uint8))
    assert list(tmp_path.iterdir()) == []
    spool._file.flush()
    assert os.fstat(spool._file.fileno()).st_size < 100 * 200 * 300 * 3 / 100
    spool.close()
    with pytest.raises(ValueError):
        spool.add(np.zeros((200, 300, 3), np.uint8))
