"""Flax modules of a script with the parameters of a checkpoint, callable like torch networks."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import torch

from .jax_states import TREE_SEPARATOR, leaves
from .rebuild import TARGET, make_network
from .weights import Mismatch, of_network

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
