"""Plain data as bytes for a socket: JSON with the bytes of arrays behind it. Nothing that arrives is ever executed."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

BYTES, ARRAY = "$bytes", "$array"  # keys of a header that point into the tail


def pack(content: Any) -> tuple[bytes, bytes]:
    """A header and a tail. TypeError for what is not plain data, bytes or a NumPy array or scalar."""
    if content is None:
        return b"", b""
    tail: list[bytes] = []

    def set_aside(value: Any) -> dict[str, Any]:
        if isinstance(value, bytes):
            tail.append(value)
            return {BYTES: len(value)}
        if isinstance(value, np.ndarray):
            tail.append(value.tobytes())
            return {ARRAY: value.dtype.str, "shape": value.shape}
        if isinstance(value, np.generic):
            return {**set_aside(np.asarray(value)), "scalar": True}
        raise TypeError(f"{type(value).__name__} is not plain data")

    return json.dumps(content, default=set_aside).encode(), b"".join(tail)


def unpack(header: bytes, tail: bytes) -> Any:
    if not tail and b'"$' not in header:
        return json.loads(header)
    offset = 0

    def next_bytes(size: int) -> bytes:
        nonlocal offset
        offset += size
        return tail[offset - size : offset]

    def from_tail(found: dict[str, Any]) -> Any:
        if ARRAY in found:
            kind = np.dtype(found[ARRAY])
            shape = found["shape"]
            array = np.frombuffer(next_bytes(kind.itemsize * math.prod(shape)), kind).reshape(shape).copy()
            return array[()] if "scalar" in found else array
        if BYTES in found:
            return next_bytes(found[BYTES])
        return found

    return json.loads(header, object_hook=from_tail)
