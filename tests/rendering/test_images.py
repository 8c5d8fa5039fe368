from __future__ import annotations

import io
import struct
import time

import numpy as np
import pytest
from PIL import Image

from palaestra.rendering import images as module
from palaestra.rendering.images import JPEG, MESSAGE, STATE, encode, fit, jpeg, shrink, shrink_roughly


def test_an_image_that_fits_is_returned_unchanged(image):
    small = image(seed=1, height=60, width=80)
    assert shrink(small, 80) is small


@pytest.mark.parametrize(("height", "width"), [(400, 600), (600, 400), (4320, 7680), (1000, 3), (641, 640), (5, 9999)])
def test_no_side_is_longer_than_requested_and_the_aspect_ratio_is_stored(height, width):
    shrunk = shrink(np.zeros((height, width, 3), np.uint8), 320)
    assert max(shrunk.shape) == 320
    expected = max(1, round(min(height, width) * 320 / max(height, width)))
    assert abs(min(shrunk.shape[:2]) - expected) <= 1
    assert shrunk.dtype == np.uint8


def test_what_falls_together_is_averaged():
    checked = np.zeros((64, 64, 3), np.uint8)
    checked[::2, ::2] = checked[1::2, 1::2] = 200
    assert np.unique(shrink(checked, 32)).tolist() == [100]


def test_colours_keep_their_positions():
    image = np.zeros((100, 200, 3), np.uint8)
    image[:, :100, 0] = 250
    image[:, 100:, 2] = 250
    shrunk = shrink(image, 50)
    assert shrunk[12, 5].tolist() == [250, 0, 0]
    assert shrunk[12, 45].tolist() == [0, 0, 250]


@pytest.mark.fault("F6")
def test_a_huge_image_is_not_read_pixel_by_pixel(image):
    huge = np.broadcast_to(np.uint8(7), (43200, 76800, 3))  # ten gigabytes, if it were copied
    began = time.process_time()
    assert shrink(huge, 320).shape == (180, 320, 3)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("longest", [40, 300, 321, 400, 479, 480, 481, 600, 799, 800, 801, 1000, 1920, 7680])
def test_roughly_is_near_enough(longest):
    shrunk = shrink_roughly(np.zeros((longest * 2 // 3, longest, 3), np.uint8), 320)
    assert min(longest, 320 * 2 / 3) <= max(shrunk.shape) <= 320 * 1.5 + 1


@pytest.mark.parametrize("side", [32, 16])
@pytest.mark.parametrize("axis", [0, 1])
def test_roughly_averages_stripes(side, axis):
    striped = np.zeros((64, 64, 3), np.uint8)
    striped[(slice(None),) * axis + (slice(None, None, 64 // side),)] = 200
    assert np.unique(shrink_roughly(striped, side)).tolist() == [100]


def test_roughly_leaves_the_image_that_it_was_given_alone(image):
    image = image(seed=3, height=90, width=120)
    before = image.copy()
    shrink_roughly(image, 30)
    assert np.array_equal(image, before)


@pytest.mark.parametrize(("wanted", "longest"), [(0, 600), (300, 300), (5000, 640)])
def test_an_image_is_as_large_as_requested_and_fits_into_the_frame_buffer(wanted, longest):
    sides = fit(np.zeros((600, 1200, 3), np.uint8), wanted, 640).shape[:2]
    assert sides == (longest // 2, longest)


def test_a_small_image_is_not_changed_to_fit():
    image = np.zeros((40, 60, 3), np.uint8)
    assert fit(image, 0, 640) is image


def test_without_pillow_pixels_are_left_out(monkeypatch):
    monkeypatch.setattr(module, "_pillow", lambda: None)
    large = np.full((400, 600, 3), 9, np.uint8)
    assert fit(large, 200, 640).shape == (133, 200, 3)
    assert max(shrink(large, 250).shape) == 200


@pytest.fixture
def frame_of(open_frame_buffer, numbers):
    def make(content):
        ends = open_frame_buffer(slots=4, capacity=700 * 700 * 3)
        ends.writer.write(3, content, numbers(env_step=99, reward=-1.5, total_reward=2.5, length=8))
        return ends.reader.read(3)

    return make


def test_a_message_says_what_it_is_byte_by_byte(frame_of, image):
    """As docs/live.md has it, without the struct that writes it."""
    frame = frame_of(image(100, height=30, width=40))
    message = encode(frame, 320, 75)
    assert message[:4] == b"PF\x01\x01"
    assert struct.unpack_from("<HHH", message, 4) == (3, 40, 30)
    assert struct.unpack_from("<QQQ", message, 16) == (1, 99, 8)
    assert struct.unpack_from("<ddd", message, 40) == (frame.header.captured_at, -1.5, 2.5)
    assert message[64:66] == b"\xff\xd8"
    assert MESSAGE.size == 64


def test_the_jpeg_shows_the_image(frame_of):
    content = np.zeros((120, 200, 3), np.uint8)
    content[:, :100] = (250, 20, 20)
    content[:, 100:] = (20, 20, 250)
    shown = np.asarray(Image.open(io.BytesIO(encode(frame_of(content), 320, 90)[64:])))
    assert shown.shape == content.shape
    assert np.abs(shown.astype(int) - content).max() < 12


def test_a_large_image_is_shrunk_to_the_requested_size(frame_of, image):
    message = encode(frame_of(image(seed=1, height=400, width=600)), 128, 75)
    assert struct.unpack_from("<HH", message, 6) == (128, 85)
    assert Image.open(io.BytesIO(message[64:])).size == (128, 85)


def test_a_state_is_sent_as_it_is(frame_of):
    message = encode(frame_of(b"AR state"), 320, 75)
    assert message[3] == STATE != JPEG
    assert message[64:] == b"AR state"
    assert struct.unpack_from("<HH", message, 6) == (0, 0)


def test_single_pixels_of_small_images_keep_their_colour():
    dots = np.full((64, 64, 3), 30, np.uint8)
    dots[::4, ::4] = (250, 30, 30)
    small = np.asarray(Image.open(io.BytesIO(jpeg(dots, 90)))).astype(int)
    assert (small[::4, ::4, 0] - small[::4, ::4, 2]).mean() > 150


def test_better_quality_is_larger(image):
    noise = image(seed=2, height=100, width=100)
    assert len(jpeg(noise, 50)) < len(jpeg(noise, 75)) < len(jpeg(noise, 90))
