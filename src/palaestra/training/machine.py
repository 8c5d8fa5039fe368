"""What a training asks of its machine without torch: whether there may be a GPU, its memory, how that is freed."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Device files of drivers: NVIDIA's, that of its Tegra boards, WSL's and AMD's.
GPU_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/nvmap"), Path("/dev/dxg"), Path("/dev/kfd"))
CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST_ON_HEAP = 32 << 20  # bytes; glibc takes no more
MAX_FREE_BYTES = 512 << 20  # at the end of the heap, before any are returned to the kernel
MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def is_surely_cpu(device: str) -> bool:
    """`device` as the configuration has it. False: only torch can tell."""
    return device == "cpu" or (device == "auto" and not any(file.exists() for file in GPU_DEVICE_FILES))


def memory_limit() -> int | None:
    """Bytes of memory that this process may have: the machine's, or less where a cgroup limits it; None: unknown."""
    found = [limit for file in _limit_files() if (limit := _number_in(file)) is not None]
    with suppress(ValueError, OSError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def _limit_files(root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> Iterator[Path]:
    """Of this process's cgroup and all above it; version 2 has one hierarchy, version 1 one for memory."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        group = PurePosixPath(path)
        for folder in (group, *group.parents):
            if not controllers:
                yield root / folder.relative_to("/") / "memory.max"
            elif "memory" in controllers.split(","):
                yield root / "memory" / folder.relative_to("/") / "memory.limit_in_bytes"


def _number_in(file: Path) -> int | None:
    """None where it is not there or says `max`."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def keep_freed_memory() -> bool:
    """Makes glibc keep freed memory in this process. False if it cannot, or the user has configured malloc.

    A minibatch of thousands of samples allocates and frees dozens of tensors of a megabyte. glibc returns such memory
    to the kernel and requests it anew, page by page and zeroed: in torch at minibatches of 4,096 that was 6,000 page
    faults an iteration and 6 % of its time. Results and peak memory stay the same.
    """
    if any(name in os.environ for name in MALLOC_VARIABLES):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    results = [mallopt(M_MMAP_THRESHOLD, LARGEST_ON_HEAP), mallopt(M_TRIM_THRESHOLD, MAX_FREE_BYTES)]
    return all(results)
