"""Pictures out of pygame, in the order in which they are wanted.

Who draws with pygame hands a surface over as `surfarray.pixels3d`, column by column, and numpy copies that pixel by
pixel: for twice as long as CartPole takes to draw. While this lasts, pygame's own copy is handed over, under the same
shape and with the same values.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.frames.shrink import Picture

WITH_PIXELS = (24, 32)  # bits of a pixel that has its colours in itself


@contextmanager
def quick_pixels() -> Iterator[None]:
    """What is handed over meanwhile cannot be written to: who means to draw with it gets a ValueError."""
    surfarray: Any = sys.modules.get("pygame.surfarray")
    if surfarray is None:
        yield
        return
    usual = surfarray.pixels3d

    def copied(surface: Any) -> Picture:
        return _copied(surface) if surface.get_bitsize() in WITH_PIXELS else usual(surface)

    surfarray.pixels3d = copied
    try:
        yield
    finally:
        surfarray.pixels3d = usual


def _copied(surface: Any) -> Picture:
    """[width, height, 3]"""
    width, height = surface.get_size()
    image: Any = sys.modules["pygame.image"]
    pixels = np.frombuffer(image.tobytes(surface, "RGB"), np.uint8)
    return pixels.reshape(height, width, 3).transpose(1, 0, 2)
