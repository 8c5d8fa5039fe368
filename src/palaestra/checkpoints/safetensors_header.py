"""What a safetensors file says it holds, read with bounds before any library sees it. Needs no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import Any

from palaestra.core.errors import DamagedFile

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 4 << 20
MAX_TENSORS = 20_000
MAX_NAME = 1_000
MAX_AXES = 64
MAX_SIDE = 1 << 40
BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}


@dataclass(frozen=True)
class TensorInfo:
    dtype: str  # as safetensors or torch calls it
    shape: tuple[int, ...]


def looks_like_safetensors(first_bytes: bytes, file_bytes: int) -> bool:
    length = int.from_bytes(first_bytes[:LENGTH_BYTES], "little")
    return first_bytes[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{" and LENGTH_BYTES + length <= file_bytes


def read_header(first_bytes: bytes, file_bytes: int, source: str) -> dict[str, TensorInfo]:
    """`beginning` holds at least the header of a file of `file_bytes`; its tensors must tile the rest exactly."""
    length = int.from_bytes(first_bytes[:LENGTH_BYTES], "little")
    if len(first_bytes) < LENGTH_BYTES or length > MAX_HEADER_BYTES or LENGTH_BYTES + length > len(first_bytes):
        raise DamagedFile(f"{source}: not safetensors, or its header has more than {MAX_HEADER_BYTES} bytes.")
    try:
        header = json.loads(first_bytes[LENGTH_BYTES : LENGTH_BYTES + length], object_pairs_hook=_without_doubles)
        header.pop("__metadata__", None)
        if len(header) > MAX_TENSORS:
            raise DamagedFile(f"{source}: names {len(header)} tensors; at most {MAX_TENSORS} are read.")
        _check_tiling([entry["data_offsets"] for entry in header.values()], file_bytes - LENGTH_BYTES - length)
        return {name: _info(name, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFile(f"{source}: its safetensors header cannot be read ({_reason(error)}).") from error


def _reason(error: Exception) -> str:
    return str(error)[:200] if isinstance(error, ValueError) else type(error).__name__


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name appears twice")
    return fields


def _check_tiling(offsets: list[list[int]], data_bytes: int) -> None:
    """No hole, no overlap, nothing beyond the end: what is not named could hide anything."""
    position = 0
    for begin, end in sorted((begin, end) for begin, end in offsets):
        if begin != position or end < begin:
            raise ValueError(f"tensor data begins at {begin}, not at {position}")
        position = end
    if position != data_bytes:
        raise ValueError(f"the tensors end at {position}, the file at {data_bytes}")


def _info(name: str, entry: dict[str, Any]) -> TensorInfo:
    """Shape and type must give exactly the bytes that the tensor has, in whole numbers of any size."""
    shape, dtype = tuple(entry["shape"]), str(entry["dtype"])
    is_shape = len(shape) <= MAX_AXES and all(type(side) is int and 0 <= side <= MAX_SIDE for side in shape)
    if len(name) > MAX_NAME or not is_shape:
        raise ValueError(f"tensor {name[:60]!r} has the shape {str(list(shape[:4]))[:60]}")
    begin, end = entry["data_offsets"]
    if dtype not in BITS or prod(shape) * BITS[dtype] != 8 * (end - begin):
        raise ValueError(f"tensor {name[:60]!r} is {dtype[:20]!r} {str(list(shape))[:60]} in {end - begin} bytes")
    return TensorInfo(dtype, shape)
