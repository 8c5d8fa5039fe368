"""Memory without a name that several processes see: it is gone with the last of them, however they ended."""

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

LINE = 64  # bytes of a cache line: what two processes write at once shares none


@dataclass(frozen=True)
class Field:
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes"""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


def new_memory() -> int:
    """A descriptor of empty memory. Where the kernel has none without a name, a file whose name is taken back."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("palaestra-envs")
        except OSError:  # some containers forbid the call; files they always have
            pass
    with tempfile.TemporaryFile(dir=frame_buffers_directory()) as file:
        return os.dup(file.fileno())


def lay_out(descriptor: int, fields: Sequence[Field]) -> dict[str, NDArray[Any]]:
    """Make the memory as large as `fields` need it, and see them in it. Who has the same fields sees the same."""
    starts = _starts(fields)
    total = max(starts[-1], mmap.PAGESIZE)
    if os.fstat(descriptor).st_size < total:
        os.truncate(descriptor, total)
        _refuse_a_full_disk(descriptor, total)
    memory = mmap.mmap(descriptor, total)
    return {
        field.name: np.frombuffer(memory, field.dtype, int(np.prod(field.shape, dtype=np.int64)), start).reshape(
            field.shape
        )
        for field, start in zip(fields, starts, strict=False)
    }


def _starts(fields: Sequence[Field]) -> list[int]:
    """Where each begins, and where the last one ends."""
    starts = [0]
    for field in fields:
        starts.append(starts[-1] + -(-field.size // LINE) * LINE)
    return starts


def _refuse_a_full_disk(descriptor: int, size: int) -> None:
    """Now, as an error; later it would be a signal that ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
