"""What a safetensors file says it holds, read with bounds before any library sees it. Needs no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from palaestra.contracts.errors import DamagedFile

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 4 << 20
MAX_TENSORS = 20_000
MAX_NAME = 1_000


@dataclass(frozen=True)
class TensorInfo:
    dtype: str  # as safetensors or torch calls it
    shape: tuple[int, ...]


def looks_like_safetensors(beginning: bytes, file_bytes: int) -> bool:
    length = int.from_bytes(beginning[:LENGTH_BYTES], "little")
    return beginning[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{" and LENGTH_BYTES + length <= file_bytes


def read_header(beginning: bytes, file_bytes: int, source: str) -> dict[str, TensorInfo]:
    """`beginning` holds at least the header of a file of `file_bytes`; its tensors must tile the rest exactly."""
    length = int.from_bytes(beginning[:LENGTH_BYTES], "little")
    if len(beginning) < LENGTH_BYTES or length > MAX_HEADER_BYTES or LENGTH_BYTES + length > len(beginning):
        raise DamagedFile(f"{source}: not safetensors, or its header has more than {MAX_HEADER_BYTES} bytes.")
    try:
        header = json.loads(beginning[LENGTH_BYTES : LENGTH_BYTES + length], object_pairs_hook=_without_doubles)
        header.pop("__metadata__", None)
        if len(header) > MAX_TENSORS:
            raise DamagedFile(f"{source}: names {len(header)} tensors; at most {MAX_TENSORS} are read.")
        _check_tiling([entry["data_offsets"] for entry in header.values()], file_bytes - LENGTH_BYTES - length)
        return {name: _info(name, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFile(f"{source}: its safetensors header cannot be read ({type(error).__name__}).") from error


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
    shape = tuple(entry["shape"])
    if len(name) > MAX_NAME or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"tensor {name[:60]!r} has shape {shape}")
    return TensorInfo(str(entry["dtype"]), shape)
