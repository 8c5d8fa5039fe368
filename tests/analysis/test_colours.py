import pytest

from palaestra.analysis.colours import (
    LINES_ON_DARK,
    LINES_ON_LIGHT,
    SHADES,
    contrast,
    hexadecimal,
    shade_colour,
    text_colour,
)


def from_text(colour):
    return tuple(bytes.fromhex(colour[1:]))


def test_shades_go_from_the_first_to_the_last_and_stay_within():
    assert (shade_colour(0), shade_colour(1)) == (SHADES[0], SHADES[-1])
    assert (shade_colour(-3), shade_colour(7)) == (SHADES[0], SHADES[-1])
    assert shade_colour(1 / 3) == SHADES[1]


def test_higher_is_always_lighter_so_that_a_grey_print_shows_the_order():
    grey = [contrast(shade_colour(step / 20), (0, 0, 0)) for step in range(21)]
    assert grey == sorted(grey)
    assert len(set(grey)) == 21


@pytest.mark.parametrize("step", range(0, 101, 5))
def test_numbers_can_be_read_on_every_shade(step):
    ground = shade_colour(step / 100)
    assert contrast(ground, text_colour(ground)) >= 4.5


def test_contrast_is_that_of_the_guidelines():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)  # their own well-known example


@pytest.mark.parametrize(
    ("colour", "ground"),
    [*((one, (255, 255, 255)) for one in LINES_ON_LIGHT), *((one, (28, 32, 36)) for one in LINES_ON_DARK)],
)
def test_lines_stand_out_from_their_ground(colour, ground):
    assert contrast(from_text(colour), ground) >= 3


def test_colours_are_written_for_the_web():
    assert hexadecimal((0, 171, 255)) == "#00abff"
    assert len(set(LINES_ON_LIGHT)) == len(LINES_ON_LIGHT) == len(LINES_ON_DARK)
