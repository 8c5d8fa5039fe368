import subprocess
import sys

import numpy as np
import pygame
import pytest

from palaestra.rendering.pygame_pixels import fast_pixels


@pytest.mark.parametrize("depth", [24, 32])
@pytest.mark.parametrize("flags", [0, pygame.SRCALPHA])
def test_the_pixels_are_those_that_pygame_gives(depth, flags):
    surface = pygame.Surface((5, 3), flags if depth == 32 else 0, depth)
    for x in range(5):
        for y in range(3):
            surface.set_at((x, y), (40 * x, 70 * y, 200 - x, 30 + y))
    usual = np.array(pygame.surfarray.pixels3d(surface))
    with fast_pixels():
        quick = np.array(pygame.surfarray.pixels3d(surface))
    assert quick.shape == (5, 3, 3)
    assert np.array_equal(usual, quick)


def test_turned_as_gymnasium_does_it_is_one_piece_of_memory():
    with fast_pixels():
        picture = np.transpose(np.array(pygame.surfarray.pixels3d(pygame.Surface((6, 4)))), axes=(1, 0, 2))
    assert picture.flags.c_contiguous
    assert picture.shape == (4, 6, 3)


def test_a_surface_with_a_palette_is_refused_as_ever():
    surface = pygame.Surface((2, 2), 0, 8)
    with fast_pixels(), pytest.raises(ValueError, match="bit"):
        pygame.surfarray.pixels3d(surface)


def test_nobody_draws_into_a_copy_without_noticing():
    with fast_pixels():
        pixels = pygame.surfarray.pixels3d(pygame.Surface((2, 2)))
        with pytest.raises(ValueError, match="read-only"):
            pixels[0, 0] = 1


def test_afterwards_pygame_is_as_it_was_even_after_an_error():
    usual = pygame.surfarray.pixels3d
    with pytest.raises(KeyError), fast_pixels():
        raise KeyError
    assert pygame.surfarray.pixels3d is usual


def test_who_does_not_draw_with_pygame_does_not_load_it():
    code = (
        "import sys\nfrom palaestra.rendering.pygame_pixels import fast_pixels\n"
        "with fast_pixels(): pass\nassert 'pygame' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
