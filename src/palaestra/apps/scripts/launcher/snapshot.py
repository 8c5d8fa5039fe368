"""The networks of a script, found among its names, as a safetensors file that nobody needs safetensors to write."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import torch

from . import normalisers
from .names import arguments_in
from .tensor_types import TYPES

if TYPE_CHECKING:
    from pathlib import Path

SEPARATOR = "."
TENSORS = "tensors"  # what needs a gradient and lies beside the networks, such as SAC's log_alpha
OPTIMISERS = "optimisers"


def take(script: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Tensors by name, and the class of each network; both empty where the script keeps none in a global."""
    tensors: dict[str, Any] = {}
    classes: dict[str, str] = {}
    seen: set[int] = set()
    for name, value in list(script.items()):
        if name.startswith("_") or id(value) in seen:
            continue
        if isinstance(value, torch.nn.Module):
            seen.add(id(value))
            classes[name] = type(_bare(value)).__name__
            tensors.update(_prefixed(name, _plain_names(_bare(value).state_dict())))
        elif isinstance(value, torch.optim.Optimizer):
            tensors.update(_prefixed(f"{OPTIMISERS}.{name}", _optimiser_tensors(value)))
        elif isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
            tensors[f"{TENSORS}.{name}"] = value
    if classes:
        tensors.update(normalisers.collect(script))
    return tensors, classes


def arguments_of(script: dict[str, Any]) -> dict[str, Any]:
    """What its command line said, as far as it is plain."""
    args = arguments_in(script)
    if dataclasses.is_dataclass(args) and not isinstance(args, type):
        found = {field.name: getattr(args, field.name) for field in dataclasses.fields(args)}
    else:
        found = dict(getattr(args, "__dict__", {}))
    plain = (bool, int, float, str, type(None))
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, plain) or (isinstance(value, list) and all(isinstance(one, plain) for one in value))
    }


def write(path: Path, tensors: dict[str, Any], notes: dict[str, str]) -> None:
    """Whole or not at all under that name."""
    header: dict[str, Any] = {"__metadata__": notes}
    pieces: list[bytes] = []
    position = 0
    for name, tensor in tensors.items():
        piece = _bytes_of(tensor)
        end = position + len(piece)
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [position, end]}
        pieces.append(piece)
        position = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draft = path.with_suffix(".draft")
    with draft.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        stream.writelines(pieces)
    draft.replace(path)


def _bytes_of(tensor: Any) -> bytes:
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _bare(network: Any) -> Any:
    """Without what torch.compile puts around it."""
    inner = vars(network).get("_modules", {}).get("_orig_mod")
    return network if inner is None else inner


def _plain_names(state: dict[str, Any]) -> dict[str, Any]:
    """Without what torch.compile puts before each name; a state that is no tensor cannot be kept."""
    return {
        name.replace("_orig_mod.", ""): value
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and value.dtype in TYPES
    }


def _optimiser_tensors(optimiser: Any) -> dict[str, Any]:
    """Moments and step counts; the settings of its groups are the script's own."""
    return {
        f"{parameter}.{key}": value
        for parameter, entries in optimiser.state_dict()["state"].items()
        for key, value in entries.items()
        if isinstance(value, torch.Tensor) and value.dtype in TYPES
    }


def _prefixed(prefix: str, tensors: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}{SEPARATOR}{name}": value for name, value in tensors.items()}
