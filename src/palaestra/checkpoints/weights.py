"""Tensors to bytes and back. Only bytes that were verified come in; nothing in them is ever executed."""

from __future__ import annotations

import pickle
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as safetensors_load
from safetensors.torch import save as safetensors_save
from torch import Tensor, nn

from palaestra.checkpoints.safetensors_header import read_header
from palaestra.core.errors import DamagedFile, NonFinite, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MAX_DEPTH = 32
PIECE = 1 << 20  # numbers
_PLAIN = (bool, int, float, str, bytes, type(None))


def policy_to_bytes(policy: nn.Module) -> bytes:
    """The weights and buffers of a policy as safetensors, as they are at this instant."""
    state = policy.state_dict()
    wrapped = next((name for name in state if name.startswith(("_orig_mod.", "module."))), None)
    if wrapped is not None:
        raise UsageError(
            f"The policy to save is a wrapper around the real one (it holds '{wrapped}').",
            "Save the module itself, not what torch.compile or DistributedDataParallel made of it.",
        )
    check_finite(state, {name for name, _ in policy.named_buffers()})
    return weights_to_bytes(state)


def check_finite(state: Mapping[str, Any], buffers: Collection[str] = ()) -> None:
    """`NonFinite` names the first tensor that holds NaN or infinity; of `buffers`, masks of -inf may be."""
    for name, value in state.items():
        is_dense = isinstance(value, Tensor) and value.layout == torch.strided and not value.is_quantized
        if not is_dense or not (value.is_floating_point() or value.is_complex()):
            continue
        is_bad = torch.isnan if name in buffers else _is_not_finite
        # A piece at a time: what is asked takes no memory of the size of the weights.
        if any(bool(is_bad(piece).any()) for piece in torch.split(value.detach().reshape(-1), PIECE)):
            raise NonFinite(f"The weights '{name}' hold NaN or infinity.", "The checkpoints before are as they were.")


def weights_to_bytes(state: Mapping[str, Any]) -> bytes:
    """Every tensor is copied first, so views, transposes and tied weights all come out as they look."""
    copies: dict[str, Tensor] = {}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise UsageError(f"The policy's state '{name}' is a {type(value).__name__}; only tensors can be saved.")
        if value.layout != torch.strided or value.is_quantized:
            raise UsageError(f"The policy's tensor '{name}' is sparse or quantized; only dense ones can be saved.")
        copies[name] = _copy(value)
    try:
        return bytes(safetensors_save(copies))
    except (SafetensorError, KeyError, ValueError) as error:
        raise UsageError(f"The policy's weights cannot be written as safetensors: {error}.") from error


def weights_from_bytes(data: bytes, source: str = "these weights") -> dict[str, Tensor]:
    """Tensors by name; the header is bounded before it is parsed."""
    read_header(data, len(data), source)
    try:
        return dict(safetensors_load(data))
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise DamagedFile(f"{source}: not valid safetensors ({error}).") from error


def trainer_state_to_bytes(state: Mapping[str, Any]) -> bytes:
    """Plain containers, numbers, text and tensors; anything else is refused now rather than when it is needed."""
    stream = BytesIO()
    torch.save(_plain_copy(dict(state), "trainer_state", 0), stream)
    return stream.getvalue()


def trainer_state_from_bytes(data: bytes, source: str = "this trainer state") -> dict[str, Any]:
    _check_torch_zip(data, source)
    try:
        state = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError) as error:
        raise DamagedFile(f"{source}: cannot be loaded as plain data ({str(error).splitlines()[0]}).") from error
    if not isinstance(state, dict):
        raise DamagedFile(f"{source}: holds a {type(state).__name__}, not a trainer state.")
    return state


def _check_torch_zip(data: bytes, source: str) -> None:
    """torch.save stores without compression, so no entry may claim more than the file has."""
    try:
        entries = zipfile.ZipFile(BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DamagedFile(f"{source}: not a file that torch.save wrote ({error}).") from error
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise DamagedFile(f"{source}: holds compressed entries, which torch.save never writes.")


def _plain_copy(value: Any, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise UsageError(f"{where} is nested deeper than {MAX_DEPTH} levels (or contains itself).")
    if isinstance(value, Tensor):
        return _copy(value)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, dict):
        return {
            _plain_copy(key, f"{where} key", depth + 1): _plain_copy(item, f"{where}[{key!r}]", depth + 1)
            for key, item in value.items()
        }
    if type(value) in {list, tuple}:
        copies = [_plain_copy(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
        return copies if isinstance(value, list) else tuple(copies)
    raise UsageError(
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}; a trainer state holds only dict, list, "
        "tuple, tensors, numbers, text, bytes and None.",
        "Turn it into one of those, e.g. torch.from_numpy(array) or int(number).",
    )


def _is_not_finite(values: Tensor) -> Tensor:
    return ~torch.isfinite(values)


def _copy(tensor: Tensor) -> Tensor:
    """Shares memory with nothing, lies on the CPU, contiguous: safe to hand to another thread."""
    return tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)
