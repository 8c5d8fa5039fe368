"""Running statistics of observation normalisation: read from a script's environments, restored, or frozen.

Wrappers store them as `obs_rms`: on one environment, on the vector environment, or in worker processes.
"""

from __future__ import annotations

import itertools
import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .weights import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

NORMALISERS = "normalisers"  # names in a checkpoint: normalisers.INDEX.mean or normalisers.vector.mean
VECTOR_WRAPPER = "vector"  # of a wrapper around the vector environment
FIRST = "0"
ATTRIBUTE = "obs_rms"
PARTS = ("mean", "var", "count")
USUAL_NAMES = ("envs", "env")  # globals in which scripts keep their environments


def collect(script: dict[str, Any]) -> dict[str, Any]:
    """Statistics of the script's environments by their names in a checkpoint. Empty without normalisation."""
    env = find_env(script)
    found = {} if env is None else find_statistics(env)
    return {
        f"{NORMALISERS}.{name}.{part}": torch.as_tensor(getattr(one, part), dtype=torch.float64)
        for name, one in found.items()
        for part in PARTS
    }


def fill(env: Any, tensors: dict[str, Any]) -> None:
    """Restores saved statistics; environments without saved ones get those of the first."""
    found = find_statistics(env)
    for name, one in found.items():
        source = name if name == VECTOR_WRAPPER or f"{NORMALISERS}.{name}.mean" in tensors else FIRST
        if f"{NORMALISERS}.{source}.mean" in tensors:
            _put(one, tensors, source)
    copies = [one for name, one in found.items() if name != VECTOR_WRAPPER]
    if copies and "parent_pipes" in vars(unwrapped(env)):
        unwrapped(env).set_attr(ATTRIBUTE, copies)


def freeze(env: Any, tensors: dict[str, Any]) -> None:
    """Restores the statistics of the first environment and stops updating them: a policy is evaluated with the
    normalisation that it was trained with."""
    for name, one in find_statistics(env).items():
        source = VECTOR_WRAPPER if name == VECTOR_WRAPPER else FIRST
        if f"{NORMALISERS}.{source}.mean" not in tensors:
            raise Mismatch(
                "the environments normalise observations, but the checkpoint has no statistics: the environments ran "
                "in worker processes (AsyncVectorEnv), from which Gymnasium before 1.0 cannot read them"
            )
        _put(one, tensors, source)
        one.update = lambda _batch: None


def find_env(script: dict[str, Any]) -> Any:
    """The environment or vector environment that the script steps, with all wrappers."""
    named = [script[name] for name in USUAL_NAMES if hasattr(script.get(name), "__dict__")]
    others = (value for name, value in script.items() if not name.startswith("_") and _is_stepped(value))
    return next(itertools.chain(named, others), None)


def unwrapped(env: Any) -> Any:
    """The environment without its wrappers."""
    return list(_layers(env))[-1]


def find_statistics(env: Any) -> dict[str, Any]:
    """Statistics by index of the environment, or VECTOR_WRAPPER."""
    found: dict[str, Any] = {}
    members = _members(unwrapped(env))
    own = _innermost_statistics(env)
    if own is not None:
        found[FIRST if members is None else VECTOR_WRAPPER] = own
    return found if members is None else {**found, **members}


def _members(base: Any) -> dict[str, Any] | None:
    """Statistics of each member of a vector environment; None for a single environment."""
    if "envs" in vars(base):
        each = {str(index): _innermost_statistics(env) for index, env in enumerate(vars(base)["envs"])}
        return {name: one for name, one in each.items() if one is not None}
    if "parent_pipes" in vars(base):
        return {str(index): one for index, one in enumerate(_query_processes(base))}
    return None


def _query_processes(vector: Any) -> tuple[Any, ...]:
    """Copies from worker processes; empty while they step, or once they are closed."""
    gymnasium: Any = sys.modules["gymnasium"]
    if not hasattr(gymnasium.Env, "has_wrapper_attr"):  # an unknown call would end the worker processes
        return ()
    try:
        return tuple(vector.call(ATTRIBUTE)) if all(vector.call("has_wrapper_attr", ATTRIBUTE)) else ()
    except (gymnasium.error.AlreadyPendingCallError, gymnasium.error.ClosedEnvironmentError, OSError, EOFError):
        return ()


def _innermost_statistics(env: Any) -> Any:
    """Statistics of the innermost wrapper that has any."""
    found = [vars(layer)[ATTRIBUTE] for layer in _layers(env) if vars(layer).get(ATTRIBUTE) is not None]
    return found[-1] if found else None


def _layers(env: Any) -> Iterator[Any]:
    """The environment and its wrappers, outermost first."""
    while env is not None and hasattr(env, "__dict__"):
        yield env
        env = vars(env).get("env")


def _is_stepped(value: Any) -> bool:
    is_thing = hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType))
    return is_thing and all(hasattr(value, name) for name in ("reset", "step", "action_space"))


def _put(statistics: Any, tensors: dict[str, Any], source: str) -> None:
    for part in PARTS:
        value = tensors[f"{NORMALISERS}.{source}.{part}"].numpy()
        kind = np.asarray(getattr(statistics, part)).dtype
        setattr(statistics, part, float(value) if part == "count" else value.astype(kind))
