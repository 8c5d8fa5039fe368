"""Pixels of pygame surfaces in row order.

Environments take a surface as `surfarray.pixels3d`, column by column, and NumPy transposes that pixel by pixel, which
takes twice as long as rendering CartPole. Inside `fast_pixels`, pygame's own copy is returned instead, with the same
shape and values.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .shrink import Pixels

TRUE_COLOUR_BITS = (24, 32)  # per pixel; other surfaces hold numbers of colours in a table


@contextmanager
def fast_pixels() -> Iterator[None]:
    """The pixels cannot be written to: an environment that draws through them gets a ValueError."""
    surfarray: Any = sys.modules.get("pygame.surfarray")
    if surfarray is None:
        yield
        return
    usual = surfarray.pixels3d

    def copied(surface: Any) -> Pixels:
        return _copied(surface) if surface.get_bitsize() in TRUE_COLOUR_BITS else usual(surface)

    surfarray.pixels3d = copied
    try:
        yield
    finally:
        surfarray.pixels3d = usual


def _copied(surface: Any) -> Pixels:
    """[width, height, 3]"""
    width, height = surface.get_size()
    image: Any = sys.modules["pygame.image"]
    data = image.tobytes(surface, "RGB") if hasattr(image, "tobytes") else image.tostring(surface, "RGB")
    pixels = np.frombuffer(data, np.uint8)
    return pixels.reshape(height, width, 3).transpose(1, 0, 2)
