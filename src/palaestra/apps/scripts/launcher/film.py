"""Pictures of an episode put aside for our side, which can make a film of them: here there may be nothing that can."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

PIECE = struct.Struct("<III")  # height, width, bytes that follow
LEVEL = 1  # of packing: most of a difference is zeros


class Film:
    """Each piece is what differs from the picture before, packed; `palaestra.apps.scripts.films` reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = path.open("wb")
        self._last: Any = None

    def add(self, picture: Any) -> None:
        """[height, width, 3]"""
        before = self._last if self._last is not None and self._last.shape == picture.shape else np.zeros_like(picture)
        packed = zlib.compress((picture ^ before).tobytes(), LEVEL)
        self._stream.write(PIECE.pack(picture.shape[0], picture.shape[1], len(packed)))
        self._stream.write(packed)
        self._last = picture.copy()

    def close(self) -> None:
        self._stream.close()


def as_picture(drawn: Any) -> Any:
    """[height, width, 3] bytes, or None for anything else that `render` may give."""
    if isinstance(drawn, list):
        drawn = drawn[-1] if drawn else None
    fits = isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] == 3 and drawn.size
    return np.ascontiguousarray(drawn.astype(np.uint8, copy=False)) if fits else None
