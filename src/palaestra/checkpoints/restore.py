"""A module with the weights of a checkpoint in it. What does not fit is refused before any memory is spent on it.

A sidecar is a few hundred bytes that may come from elsewhere; `hidden: [20000, 20000]` in it asks for gigabytes. So the
safetensors header, which the file itself proves, bounds what may be built: no tensor larger than the largest in the
file, no more of them than it holds, and of our own components none of a shape that it does not have.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from palaestra.checkpoints.safetensors_header import TensorInfo, read_header
from palaestra.checkpoints.weights import check_finite, weights_from_bytes
from palaestra.core.errors import DamagedFile, NonFinite
from palaestra.policies.build import build_policy, is_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from palaestra.config.policy import PolicyConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.agent import Agent

# For what is derived and not saved, such as tables: of our own components, and of a class of the user's own.
MARGIN_BYTES = 1 << 20
OWN_MARGIN_BYTES = 48 << 20
MARGIN_TENSORS = 1_000
DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
}
# What makes tensors from nothing but sizes; the first of their arguments that are sizes.
FACTORIES = {
    **dict.fromkeys((torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn), 0),
    **dict.fromkeys((Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full), 1),
}
# What torch and arithmetic raise for impossible sizes.
UNBUILDABLE = (RuntimeError, ArithmeticError, ValueError, TypeError, LookupError, MemoryError)


class TooLargeError(Exception):
    """More was asked for than the weights hold."""


def restore_agent(config: PolicyConfig, interface: EnvInterface, data: bytes, source: str) -> Agent:
    """The agent that `config` describes with the weights in `data` (safetensors), on the CPU.

    `DamagedFile` names `source` when the two do not belong together.
    """
    found = read_header(data, len(data), source)
    is_ours = is_graph(config)
    shapes = {info.shape for info in found.values()} if is_ours else None
    most_bytes = len(data) + (MARGIN_BYTES if is_ours else OWN_MARGIN_BYTES)
    try:
        with _bounded(len(data) + most_bytes, 2 * len(found) + MARGIN_TENSORS, shapes), BoundedFactories(most_bytes):
            agent = build_policy(config, interface)
            agent.initial_memory(1)
    except TooLargeError as error:
        raise DamagedFile(
            f"{source}: its weights ({len(data):,} bytes) do not fit the policy: {error}.",
            "Are sidecar and weights of the same checkpoint?",
        ) from error
    except UNBUILDABLE as error:
        problem = (str(error).splitlines() or [""])[0][:200]
        raise DamagedFile(f"{source}: the policy that it describes cannot be built: {problem}") from error
    _check_fit(_described(agent), found, source)
    fill_module(agent, weights_from_bytes(data, source), source)
    return agent


def fill_module(module: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Load `weights` into `module`; names, shapes and types must be equal, and no weight may be NaN."""
    found = {name: _info(tensor) for name, tensor in weights.items()}
    _check_fit(_described(module), found, source)
    try:
        check_finite(weights, {name for name, _ in module.named_buffers()})
    except NonFinite as error:
        raise DamagedFile(f"{source}: {error.message}", "Select an earlier checkpoint.") from error
    module.load_state_dict(dict(weights), strict=True)


def _described(module: nn.Module) -> dict[str, TensorInfo]:
    return {name: _info(value) for name, value in module.state_dict().items() if isinstance(value, Tensor)}


def _info(tensor: Tensor) -> TensorInfo:
    return TensorInfo(DTYPES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape))


def _check_fit(wanted: Mapping[str, TensorInfo], found: Mapping[str, TensorInfo], source: str) -> None:
    problems = [f"'{name}' is missing" for name in wanted if name not in found]
    problems += [f"'{name}' is not expected" for name in found if name not in wanted]
    problems += [
        f"'{name}' is {_text(found[name])}, expected {_text(info)}"
        for name, info in wanted.items()
        if name in found and found[name] != info
    ]
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise DamagedFile(f"{source}: its weights do not fit the policy: {'; '.join(problems[:3])}{more}.")


def _text(info: TensorInfo) -> str:
    return f"{info.dtype} {list(info.shape)}"


class BoundedFactories(TorchFunctionMode):
    """While it is entered, `torch.empty` and its like refuse, in this thread, to make a tensor of more bytes than that.

    Layers ask for memory before they register what they got.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        given = kwargs or {}
        if func in FACTORIES:
            sizes = given.get("size", args[FACTORIES[func] :])
            if _count(sizes) * _number_bytes(given.get("dtype")) > self._most_bytes:
                raise TooLargeError(f"it asks for a tensor of more than {self._most_bytes:,} bytes")
        return func(*args, **given)


def _count(sizes: Any) -> int:
    """`(3, 4)`, `((3, 4),)` and `((3, 4), fill_value)` are 12."""
    inner = next((one for one in sizes if isinstance(one, tuple | list)), sizes)
    return prod(max(side, 0) for side in inner if isinstance(side, int))


def _number_bytes(dtype: torch.dtype | None) -> int:
    return (dtype or torch.get_default_dtype()).itemsize


@contextmanager
def _bounded(bytes_left: int, tensors_left: int, shapes: set[tuple[int, ...]] | None) -> Iterator[None]:
    """While it lasts, modules that this thread builds may register so much, and only `shapes` (None: any).

    The hooks are torch's own and global, hence the look at the thread.
    """
    thread = threading.get_ident()

    def count(_module: nn.Module, name: str, tensor: Tensor | None) -> None:
        nonlocal bytes_left, tensors_left
        if threading.get_ident() != thread or tensor is None:
            return
        bytes_left -= tensor.nbytes
        tensors_left -= 1
        if bytes_left < 0 or tensors_left < 0:
            raise TooLargeError(f"it has more of them, at '{name}'")

    def check(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        count(module, name, parameter)
        if shapes is None or parameter is None or threading.get_ident() != thread:
            return
        if tuple(parameter.shape) not in shapes:
            raise TooLargeError(
                f"none there has the shape {list(parameter.shape)} of a {type(module).__name__}'s {name}"
            )

    hooks = (register_module_parameter_registration_hook(check), register_module_buffer_registration_hook(count))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
