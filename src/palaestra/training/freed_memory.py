"""Memory that torch frees stays with the process that will want it again.

A minibatch of thousands of samples makes and frees dozens of tensors of a megabyte. glibc gives such memory back to the
kernel and gets it anew, page by page and zeroed: of a training in torch at minibatches of 4,096 that was 6,000 page
faults an iteration and 6 % of its time. Bits are not touched by it, nor is the most memory that is ever held.
"""

from __future__ import annotations

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST_ON_HEAP = 32 << 20  # bytes; glibc takes no more
KEPT_FREE = 512 << 20  # bytes at the end of the heap before any are given back
OWN_WISHES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """For the rest of this process. False where the C library knows no such thing, or the user told it otherwise."""
    if any(name in os.environ for name in OWN_WISHES):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    told = [mallopt(M_MMAP_THRESHOLD, LARGEST_ON_HEAP), mallopt(M_TRIM_THRESHOLD, KEPT_FREE)]
    return all(told)
