import numpy as np
import pytest

from palaestra.apps.arena.canvas import Canvas


def area(canvas, mask):
    """As part of the cell"""
    return mask.sum() / mask.size


@pytest.fixture
def canvas():
    return Canvas(32)


def test_shapes_have_the_areas_that_geometry_gives_them(canvas):
    assert area(canvas, canvas.disc(0.5, 0.5, 0.3)) == pytest.approx(np.pi * 0.09, rel=0.01)
    assert area(canvas, canvas.ring(0.5, 0.5, 0.4, 0.1)) == pytest.approx(np.pi * (0.16 - 0.09), rel=0.01)
    assert area(canvas, canvas.arc(0.5, 0.5, 0.4, 0.1, 0.25)) == pytest.approx(np.pi * 0.07 / 4, rel=0.02)
    assert area(canvas, canvas.box(0.25, 0.25, 0.75, 0.5)) == pytest.approx(0.125, rel=0.02)
    rounded = 0.25 - (4 - np.pi) * 0.01
    assert area(canvas, canvas.box(0.25, 0.25, 0.75, 0.75, 0.1)) == pytest.approx(rounded, rel=0.02)
    assert area(canvas, canvas.polygon([(0.1, 0.1), (0.9, 0.1), (0.1, 0.9)])) == pytest.approx(0.32, rel=0.02)


def test_a_heart_is_as_wide_as_asked_and_the_same_on_both_sides(canvas):
    heart = canvas.heart(0.5, 0.5, 0.6)
    columns = np.flatnonzero(heart.any(0))
    assert (columns[-1] - columns[0] + 1) / heart.shape[1] == pytest.approx(0.6, abs=0.02)
    np.testing.assert_array_equal(heart, heart[:, ::-1])


def test_where_nothing_is_painted_the_ground_stays_as_it_is(canvas):
    sprite = canvas.sprite()
    ground = np.arange(256, dtype=np.float32)[:, None, None, None]
    np.testing.assert_array_equal(
        (ground * sprite.keep + sprite.color).astype(np.uint8), np.uint8(ground) + 0 * np.uint8(sprite.color)
    )


def test_a_full_colour_hides_the_ground_and_half_of_it_mixes():
    for opacity, expected in ((1.0, 200), (0.5, 150)):
        canvas = Canvas(4)
        canvas.paint(canvas.box(0, 0, 1, 1), (200, 200, 200), opacity)
        sprite = canvas.sprite()
        np.testing.assert_array_equal((100 * sprite.keep + sprite.color).astype(np.uint8), expected)


def test_an_edge_through_a_pixel_is_soft():
    canvas = Canvas(2)
    canvas.paint(canvas.box(0, 0, 0.75, 1), (200, 0, 0))
    keep = canvas.sprite().keep[0, :, 0]
    assert keep.tolist() == pytest.approx([0.0, 0.5], abs=0.01)


def test_a_shade_tints_only_what_is_there():
    canvas = Canvas(4)
    canvas.paint(canvas.box(0, 0, 0.5, 1), (100, 100, 100))
    canvas.shade(canvas.box(0, 0, 1, 1), (200, 200, 200), 0.5)
    sprite = canvas.sprite()
    assert sprite.keep[0, :, 0].tolist() == [0, 0, 1, 1]
    assert sprite.color[0, 0, 0] == pytest.approx(150.5)
