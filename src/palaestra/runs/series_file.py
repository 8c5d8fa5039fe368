"""A file of points that grows at its end. What it holds is said by whoever keeps it: how many, with which checksum."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palaestra.contracts.errors import DamagedFile
from palaestra.runs.files import write_atomic
from palaestra.runs.series_points import POINT

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.series_points import Points


@dataclass(frozen=True)
class Extent:
    """What of a file counts; bytes behind it are the beginning of something that was never finished."""

    count: int = 0  # points
    checksum: int = 0  # crc-32 of their bytes


def append(path: Path, extent: Extent, points: Points) -> Extent:
    """Behind what counts already; nothing of that is touched."""
    data = points.tobytes()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        written = os.pwrite(descriptor, data, extent.count * POINT.itemsize)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written to {path}")
    finally:
        os.close(descriptor)
    return Extent(extent.count + len(points), zlib.crc32(data, extent.checksum))


def replace(path: Path, points: Points) -> Extent:
    """All of it anew; whoever reads the old file just now reads it to its end."""
    data = points.tobytes()
    write_atomic(path, data, durable=False)
    return Extent(len(points), zlib.crc32(data))


def load(path: Path, extent: Extent, *, check: bool = True) -> Points:
    """`check` costs a millisecond per megabyte; a process needs to do it once."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise DamagedFile(f"{path} cannot be opened: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as stream:
        points = np.fromfile(stream, POINT, extent.count)
    if len(points) != extent.count:
        raise DamagedFile(f"{path} holds {len(points)} points instead of {extent.count}.")
    if check and zlib.crc32(points.data) != extent.checksum:
        raise DamagedFile(f"{path}: its bytes are not those that were written.")
    return points
