"""Parameters of JAX scripts: flax training states and trees of arrays among a script's globals.

Neither jax nor flax is imported. A state is an object with `params` and `apply_fn` (flax's TrainState and classes
derived from it), or a tree of arrays in a global with "params" in its name. Names in a checkpoint are the tree's
paths: `q_state.params.params.Dense_0.kernel`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from .weights import TYPES, Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

TREE_SEPARATOR = "."
TREE_NAME = "params"  # part of the name of a global with a tree that is not in a training state
TYPE_NAMES = {str(kind).replace("torch.", "") for kind in TYPES}  # dtypes that a checkpoint can hold


class FoundStates(NamedTuple):
    tensors: dict[str, Any]  # by path in the tree
    classes: dict[str, str]  # name of a network, or of a state without one -> its class
    networks: dict[str, str]  # name of a state -> name of its network; "" without one


def find_states(names: dict[str, Any]) -> FoundStates:
    """States and their networks among a script's globals; all empty for a script without jax."""
    found = FoundStates({}, {}, {})
    if "jax" not in sys.modules:
        return found
    modules = {name: value for name, value in names.items() if not name.startswith("_") and is_module(value)}
    visited: set[int] = set()
    for name, value in list(names.items()):
        if name.startswith("_") or id(value) in visited or not (is_state(value) or _is_tree(name, value)):
            continue
        tensors = {f"{name}{TREE_SEPARATOR}{path}": as_tensor(leaf) for path, leaf in leaves(value)}
        if not tensors:
            continue
        visited.add(id(value))
        network = _network_of(value, modules)
        found.tensors.update(tensors)
        found.networks[name] = network
        found.classes[network or name] = type(modules.get(network, value)).__name__
    return found


def is_module(value: Any) -> bool:
    """Whether it is an unbound flax module: it has `init` and `apply`."""
    return not isinstance(value, type) and callable(getattr(value, "init", None)) and hasattr(value, "apply")


def is_state(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "apply_fn") and hasattr(value, "params")


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Arrays and numbers with their paths; functions and other entries of a state are skipped."""
    if _is_leaf(tree):
        yield path, tree
        return
    for key, value in _children(tree):
        yield from leaves(value, f"{path}{TREE_SEPARATOR}{key}" if path else str(key))


def fill_tree(tree: Any, tensors: dict[str, Any], name: str, path: str = "") -> Any:
    """The tree with its arrays replaced; raises `Mismatch` for the first that is missing or has another shape."""
    if _is_leaf(tree):
        value = tensors.get(path)
        if value is None or tuple(value.shape) != np.shape(tree):
            saved_shape = "missing" if value is None else tuple(value.shape)
            raise Mismatch(f"'{name}': {path} is {saved_shape} in the checkpoint and {np.shape(tree)} now")
        return _like(tree, value)
    filled = {
        key: fill_tree(value, tensors, name, f"{path}{TREE_SEPARATOR}{key}" if path else str(key))
        for key, value in _children(tree)
    }
    kind: Any = type(tree)
    if isinstance(tree, Mapping):
        return kind(filled)
    if hasattr(tree, "_replace"):
        return tree._replace(**filled)
    if isinstance(tree, (list, tuple)):
        return kind(filled.values())
    return dataclasses.replace(tree, **filled) if filled else tree


def as_tensor(leaf: Any) -> Any:
    array = np.ascontiguousarray(leaf).reshape(np.shape(leaf))  # keeps 0 dimensions
    if array.dtype.name == "bfloat16":  # an extension type of NumPy that torch cannot convert
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _like(leaf: Any, tensor: Any) -> Any:
    """A jax array in place of an array, a number in place of a number."""
    if isinstance(leaf, (int, float)):
        return type(leaf)(tensor.item())
    array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return sys.modules["jax"].numpy.asarray(array, dtype=leaf.dtype)


def _is_leaf(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return not isinstance(value, bool)
    is_gone = getattr(value, "is_deleted", None)  # a donated buffer of jax
    return str(getattr(value, "dtype", "")) in TYPE_NAMES and hasattr(value, "shape") and not (is_gone and is_gone())


def _children(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, Mapping):
        yield from tree.items()
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type) and not is_module(tree):
        yield from ((field.name, getattr(tree, field.name)) for field in dataclasses.fields(tree))
    elif isinstance(tree, tuple) and hasattr(tree, "_asdict"):
        yield from tree._asdict().items()
    elif isinstance(tree, (list, tuple)):
        yield from enumerate(tree)


def _is_tree(name: str, value: Any) -> bool:
    return TREE_NAME in name.lower() and isinstance(value, Mapping)


def _network_of(state: Any, modules: dict[str, Any]) -> str:
    """The network whose `apply` the state calls; for a tree without a state, the only network of the script."""
    function = getattr(state, "apply_fn", None)
    while function is not None and not hasattr(function, "__self__"):
        function = getattr(function, "__wrapped__", None)  # jax.jit
    owner = getattr(function, "__self__", None)
    same = [name for name, module in modules.items() if module is owner]
    if same:
        return same[0]
    return next(iter(modules)) if len(modules) == 1 else ""
