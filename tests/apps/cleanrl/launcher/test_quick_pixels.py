import numpy as np
import pygame
import pytest

from palaestra.apps.cleanrl.launcher.quick_pixels import quick_pixels


@pytest.fixture
def painted():
    surface = pygame.Surface((7, 4), 0, 32)
    for x in range(7):
        surface.set_at((x, x % 4), (30 * x, 250 - x, 9))
    return surface


def test_the_pixels_are_those_that_pygame_gives_and_lie_as_a_picture_does(painted):
    usual = np.array(pygame.surfarray.pixels3d(painted))
    with quick_pixels():
        quick = pygame.surfarray.pixels3d(painted)
    assert np.array_equal(usual, quick)
    assert np.transpose(quick, (1, 0, 2)).flags.c_contiguous


def test_an_older_pygame_that_calls_it_otherwise_serves_as_well(painted, monkeypatch):
    usual, words = np.array(pygame.surfarray.pixels3d(painted)), pygame.image.tobytes
    monkeypatch.setattr(pygame.image, "tostring", words, raising=False)
    monkeypatch.delattr(pygame.image, "tobytes")
    with quick_pixels():
        assert np.array_equal(usual, pygame.surfarray.pixels3d(painted))


def test_who_writes_into_it_notices_and_a_palette_is_left_to_pygame(painted):
    with quick_pixels():
        with pytest.raises(ValueError, match="read-only"):
            pygame.surfarray.pixels3d(painted)[0, 0] = 1
        with pytest.raises(ValueError, match="bit"):
            pygame.surfarray.pixels3d(pygame.Surface((2, 2), 0, 8))


def test_afterwards_pygame_is_as_it_was_even_after_an_error():
    usual = pygame.surfarray.pixels3d
    with pytest.raises(KeyError), quick_pixels():
        raise KeyError
    assert pygame.surfarray.pixels3d is usual
