"""Reads snapshots (safetensors files) with the standard library and torch; nothing in them is executed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pathlib import Path

TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

KINDS = {name: kind for kind, name in TYPES.items()}
LENGTH_BYTES = 8


class Mismatch(Exception):
    """Saved weights do not fit the script; the message names both sides."""


def read(path: Path, sha256: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Metadata and tensors of a file, whose hash is checked."""
    data = bytearray(path.read_bytes())
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Mismatch(f"{path.name} is not the file that was verified")
    begin = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    header = json.loads(bytes(data[LENGTH_BYTES:begin]))
    notes = header.pop("__metadata__", {})
    return notes, {name: _tensor(data, begin, entry) for name, entry in header.items()}


def _tensor(data: bytearray, begin: int, entry: dict[str, Any]) -> Any:
    first, last = entry["data_offsets"]
    kind = KINDS[entry["dtype"]]
    if first == last:
        return torch.zeros(entry["shape"], dtype=kind)
    return torch.frombuffer(bytearray(data[begin + first : begin + last]), dtype=kind).reshape(entry["shape"])


def of_network(tensors: dict[str, Any], name: str) -> dict[str, Any]:
    """Tensors of the network in the global `name`, without that prefix."""
    return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}.")}


def fill(network: Any, state: dict[str, Any], name: str) -> None:
    """Loads a state into a network; raises `Mismatch` that names missing, surplus or differently shaped entries."""
    has = {key.replace("_orig_mod.", ""): key for key in network.state_dict()}
    missing, surplus = sorted(set(has) - set(state)), sorted(set(state) - set(has))
    there = network.state_dict()
    other = [key for key in has if key in state and there[has[key]].shape != state[key].shape]
    kind = type(network).__name__
    if missing or surplus:
        which = ", ".join([*(f"no {key}" for key in missing[:3]), *(f"an additional {key}" for key in surplus[:3])])
        raise Mismatch(f"'{name}' ({kind}) differs from the one that was saved: the checkpoint has {which}")
    if other:
        key = other[0]
        shapes = f"{tuple(state[key].shape)} in the checkpoint and {tuple(there[has[key]].shape)} now"
        raise Mismatch(f"'{name}' ({kind}) differs from the one that was saved: {key} is {shapes}")
    network.load_state_dict({has[key]: value for key, value in state.items()})
