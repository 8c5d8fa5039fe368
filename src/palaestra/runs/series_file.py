"""A file of rows that grows at its end. What it holds is said by whoever keeps it: how many, with which checksum."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import DamagedFile
from palaestra.runs.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Rows = NDArray[Any]
    RowType = np.dtype[Any]

PIECE = 1 << 20
AT_ONCE = 512  # rows: to read them costs no more than to read one


@dataclass(frozen=True)
class Extent:
    """What of a file counts; bytes behind it are the beginning of something that was never finished."""

    count: int = 0  # rows
    checksum: int = 0  # crc-32 of their bytes


def append(path: Path, extent: Extent, rows: Rows) -> Extent:
    """Behind what counts already; nothing of that is touched."""
    data = rows.tobytes()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        written = os.pwrite(descriptor, data, extent.count * rows.dtype.itemsize)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written to {path}")
    finally:
        os.close(descriptor)
    return Extent(extent.count + len(rows), zlib.crc32(data, extent.checksum))


def replace(path: Path, rows: Rows) -> Extent:
    """All of it anew; whoever reads the old file just now reads it to its end."""
    data = rows.tobytes()
    write_atomic(path, data, durable=False)
    return Extent(len(rows), zlib.crc32(data))


class SeriesFile:
    """Open for reading; made for a `with` block."""

    def __init__(self, path: Path, extent: Extent, kind: RowType) -> None:
        self._path = path
        self._extent = extent
        self._kind = kind
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise DamagedFile(f"{path} cannot be opened: {error.strerror}.") from error

    def __enter__(self) -> SeriesFile:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    def __len__(self) -> int:
        return self._extent.count

    def read(self, start: int = 0, stop: int | None = None) -> Rows:
        """Rows from `start` to before `stop`; `DamagedFile` when they are not all there."""
        stop = self._extent.count if stop is None else min(stop, self._extent.count)
        size = max(0, stop - start) * self._kind.itemsize
        data = os.pread(self._descriptor, size, start * self._kind.itemsize)
        if len(data) != size:
            raise DamagedFile(f"{self._path} ends before the {self._extent.count} rows that it should have.")
        return np.frombuffer(data, self._kind)

    def verify(self) -> None:
        """Every byte that counts: a millisecond per megabyte. A process needs to do it once."""
        left, position, checksum = self._extent.count * self._kind.itemsize, 0, 0
        while left:
            piece = os.pread(self._descriptor, min(PIECE, left), position)
            if not piece:
                raise DamagedFile(f"{self._path} ends before the {self._extent.count} rows that it should have.")
            checksum = zlib.crc32(piece, checksum)
            position, left = position + len(piece), left - len(piece)
        if checksum != self._extent.checksum:
            raise DamagedFile(f"{self._path}: its bytes are not those that were written.")

    def first_index(self, column: str, value: float, *, beyond: bool = False) -> int:
        """Of the first row whose column (in rising order) is at least `value`, or `beyond` it. A few tiny reads."""
        low, high = 0, self._extent.count
        while high - low > AT_ONCE:
            middle = (low + high) // 2
            found = self.read(middle, middle + 1)[column][0]
            if found < value or (beyond and found == value):
                low = middle + 1
            else:
                high = middle
        rest = np.ascontiguousarray(self.read(low, high)[column])
        return low + int(np.searchsorted(rest, value, side="right" if beyond else "left"))
