"""Pictures of an episode put aside without loss, so that episodes played one by one can be shown side by side.

What differs from the picture before is packed and written to a file without a name, which is gone with its process.
"""

from __future__ import annotations

import tempfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    Picture = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]

LEVEL = 1  # of packing: most of a difference is zeros anyway
SIZE_BYTES = 4


class Spool:
    """Written once, then read once; all pictures have one size."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="palaestra-spool-")  # noqa: SIM115  closed by `close`
        self._last: Picture | None = None
        self.count = 0

    def add(self, picture: Picture) -> None:
        before = np.zeros_like(picture) if self._last is None else self._last
        packed = zlib.compress((picture ^ before).tobytes(), LEVEL)
        self._file.write(len(packed).to_bytes(SIZE_BYTES, "big"))
        self._file.write(packed)
        self._last = picture.copy()
        self.count += 1

    def pictures(self) -> Iterator[Picture]:
        """In the order in which they were added."""
        if self._last is None:
            return
        self._file.seek(0)
        picture = np.zeros_like(self._last)
        for _ in range(self.count):
            size = int.from_bytes(self._file.read(SIZE_BYTES), "big")
            change = np.frombuffer(zlib.decompress(self._file.read(size)), np.uint8)
            picture = picture ^ change.reshape(picture.shape)
            yield picture

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
