"""Pictures out of pygame in the order in which they are wanted, as our trainer has them (`palaestra.envs`).

Environments take a surface as `surfarray.pixels3d`, column by column, and NumPy turns that round pixel by pixel, for
longer than drawing took. While this lasts, pygame's own copy is handed over instead, with the same shape and values.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

TRUE_COLOURS = (24, 32)  # bits of a pixel; others are numbers of colours in a table


@contextmanager
def quick_pixels() -> Iterator[None]:
    """Who writes to what is handed over meanwhile, gets a ValueError."""
    surfarray: Any = sys.modules.get("pygame.surfarray")
    if surfarray is None:
        yield
        return
    usual = surfarray.pixels3d
    surfarray.pixels3d = lambda surface: _copy(surface) if surface.get_bitsize() in TRUE_COLOURS else usual(surface)
    try:
        yield
    finally:
        surfarray.pixels3d = usual


def _copy(surface: Any) -> Any:
    """[width, height, 3]"""
    width, height = surface.get_size()
    image: Any = sys.modules["pygame.image"]
    data = image.tobytes(surface, "RGB") if hasattr(image, "tobytes") else image.tostring(surface, "RGB")
    return np.frombuffer(data, np.uint8).reshape(height, width, 3).transpose(1, 0, 2)
