"""Anonymous memory shared by several processes; it is freed with the last of them, however they end."""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.rendering.frame_buffer import frame_buffers_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LINE = 64  # bytes of a cache line, so that two processes never write to the same one


@dataclass(frozen=True)
class Field:
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


def new_memory() -> int:
    """A descriptor of empty memory: anonymous, or else of a deleted file."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("palaestra-envs")
        except OSError:  # some containers forbid the call
            pass
    with tempfile.TemporaryFile(dir=frame_buffers_directory()) as file:
        return os.dup(file.fileno())


def lay_out(descriptor: int, fields: Sequence[Field]) -> dict[str, NDArray[Any]]:
    """Makes the memory large enough and returns an array per field; equal fields give the same arrays everywhere."""
    starts = _starts(fields)
    total = max(starts[-1], mmap.PAGESIZE)
    if os.fstat(descriptor).st_size < total:
        os.truncate(descriptor, total)
        _reserve(descriptor, total)
    memory = mmap.mmap(descriptor, total)
    return {
        field.name: np.frombuffer(memory, field.dtype, int(np.prod(field.shape, dtype=np.int64)), start).reshape(
            field.shape
        )
        for field, start in zip(fields, starts, strict=False)
    }


def _starts(fields: Sequence[Field]) -> list[int]:
    """The offset of each field, and the end of the last."""
    starts = [0]
    for field in fields:
        starts.append(starts[-1] + -(-field.size // LINE) * LINE)
    return starts


def _reserve(descriptor: int, size: int) -> None:
    """Reserves the space: lack of it is an error now, and would be a signal later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
