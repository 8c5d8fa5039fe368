"""Flax modules of a script with the parameters of a checkpoint, callable like torch networks."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from .rebuild import TARGET, make_network
from .weights import TYPES, Mismatch, of_network

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


PARAMETERS = "params"  # attribute of a training state


class JaxNetwork:
    """Takes and returns torch tensors; `module` and `params` are those of the script."""

    def __init__(self, module: Any, params: Any, fields: dict[str, Any]) -> None:
        self.module, self.params = module, params
        self._apply = importlib.import_module("jax").jit(module.apply)
        for name, value in fields.items():  # such as C51's `atoms`
            setattr(self, name, value)

    def forward(self, observations: Any) -> Any:
        return _as_tensors(self._apply(self.params, observations.numpy()))

    def __call__(self, observations: Any) -> Any:
        return self.forward(observations)


def make_jax_networks(
    script: Any, classes: dict[str, str], states: dict[str, str], tensors: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The networks that could be built, and the reasons why others could not."""
    made: dict[str, Any] = {}
    problems: list[str] = []
    for state, name in states.items():
        if TARGET in name.lower() or name in made:
            continue
        try:
            made[name] = _jax_network(script, state, name, classes, of_network(tensors, state))
        except Mismatch as error:
            problems.append(str(error))
    return made, problems


def _jax_network(script: Any, state: str, name: str, classes: dict[str, str], tensors: dict[str, Any]) -> JaxNetwork:
    if not name:
        raise Mismatch(
            f"no network was found for '{state}' ({classes.get(state)}): the script must have a flax module among its "
            f"globals whose `apply` is the apply_fn of '{state}'"
        )
    module = make_network(script, name, classes[name])
    own = of_network(tensors, PARAMETERS) or tensors  # a tree without a training state has no `params`
    params = tree_of({path: _as_array(value) for path, value in own.items()})
    if len(inspect.signature(type(module).__call__).parameters) == 2:  # `self` and the observation
        _check(module, params, script.envs, name)
    fields = {path: value for path, value in tensors.items() if TREE_SEPARATOR not in path}
    return JaxNetwork(module, params, fields)


def tree_of(arrays: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries from paths."""
    tree: dict[str, Any] = {}
    for path, value in arrays.items():
        *parents, last = path.split(TREE_SEPARATOR)
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


def _check(module: Any, params: dict[str, Any], envs: Any, name: str) -> None:
    """Raises `Mismatch` for the first parameter whose shape differs for these environments."""
    jax = importlib.import_module("jax")
    observation = np.zeros((1, *envs.single_observation_space.shape), np.float32)
    wanted = dict(_shapes(jax.eval_shape(module.init, jax.random.PRNGKey(0), observation)))
    saved = dict(_shapes(params))
    for path in sorted({*wanted, *saved}):
        if wanted.get(path) != saved.get(path):
            saved_shape, current_shape = saved.get(path, "missing"), wanted.get(path, "missing")
            kind = type(module).__name__
            raise Mismatch(
                f"'{name}' ({kind}) differs from the one that was saved: {path} is {saved_shape} in the checkpoint and "
                f"{current_shape} now"
            )


def _shapes(tree: Any) -> list[tuple[str, tuple[int, ...]]]:
    return [(path, tuple(leaf.shape)) for path, leaf in leaves(tree)]


def _as_array(tensor: Any) -> Any:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _as_tensors(given: Any) -> Any:
    if isinstance(given, (tuple, list)):
        return tuple(map(_as_tensors, given))
    return torch.from_numpy(np.array(given)) if hasattr(given, "shape") else given
