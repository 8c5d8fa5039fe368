import time

import numpy as np
import pytest

from palaestra.rendering import shrink as module
from palaestra.rendering.shrink import fit, shrink, shrink_roughly


def test_a_picture_that_fits_is_handed_on_as_it_is(picture):
    small = picture(seed=1, height=60, width=80)
    assert shrink(small, 80) is small


@pytest.mark.parametrize(("height", "width"), [(400, 600), (600, 400), (4320, 7680), (1000, 3), (641, 640), (5, 9999)])
def test_no_side_is_longer_than_asked_and_proportions_stay(height, width):
    shrunk = shrink(np.zeros((height, width, 3), np.uint8), 320)
    assert max(shrunk.shape) == 320
    expected = max(1, round(min(height, width) * 320 / max(height, width)))
    assert abs(min(shrunk.shape[:2]) - expected) <= 1
    assert shrunk.dtype == np.uint8


def test_what_falls_together_is_averaged():
    checked = np.zeros((64, 64, 3), np.uint8)
    checked[::2, ::2] = checked[1::2, 1::2] = 200
    assert np.unique(shrink(checked, 32)).tolist() == [100]


def test_colours_stay_in_their_places():
    picture = np.zeros((100, 200, 3), np.uint8)
    picture[:, :100, 0] = 250
    picture[:, 100:, 2] = 250
    shrunk = shrink(picture, 50)
    assert shrunk[12, 5].tolist() == [250, 0, 0]
    assert shrunk[12, 45].tolist() == [0, 0, 250]


@pytest.mark.fault("F6")
def test_a_huge_picture_is_not_looked_at_pixel_by_pixel(picture):
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


def test_roughly_leaves_the_image_that_it_was_given_alone(picture):
    image = picture(seed=3, height=90, width=120)
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
